// flash2 on the CPU: tiled, fused attention with online softmax. flash2.cpp lists it as a kernel.
#pragma once

#include <cstddef>

#include "attention/cpu/plan.h"

namespace strobe::cpu {

std::size_t forward_workspace(const Problem& problem, const Plan& plan);
void forward(const Problem& problem, const Plan& plan, void* workspace);

std::size_t backward_workspace(const Problem& problem, const Plan& plan);
void backward(const Problem& problem, const Plan& plan, void* workspace);

// Zeros (and LSE -inf) for rows and keys past their sequence's length in a padded batch.
void clear_padding(const Problem& problem);

}  // namespace strobe::cpu
