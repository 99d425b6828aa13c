// flash2 on the CPU: tiled, fused attention with online softmax. flash2.cpp lists it as a kernel.
#pragma once

#include <cstddef>

#include "attention/cpu/plan.h"

namespace strobe::cpu {

// Both passes tell whether the plan's panels could hold the values; where not, what they wrote does not count.
std::size_t forward_workspace(const Problem& problem, const Plan& plan);
bool forward(const Problem& problem, const Plan& plan, void* workspace);

std::size_t backward_workspace(const Problem& problem, const Plan& plan);
bool backward(const Problem& problem, const Plan& plan, void* workspace);

// Zeros (and LSE -inf) for rows and keys past their sequence's length in a padded batch.
void clear_padding(const Problem& problem);

}  // namespace strobe::cpu
