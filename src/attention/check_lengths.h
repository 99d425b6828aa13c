// Checks of variable-length batches: per-sequence lengths, or cumulative offsets of packed sequences.
// Called by validate.cpp.
#pragma once

#include <string>

#include "attention/problem.h"

namespace strobe {

// Reads every index on the CPU, none on CUDA. Fills in batch, max_q, max_k, packed and the index views.
void check_lengths(const Attention& attention, Problem& problem);

// Empty where every sequence is known to have as many rows as keys without reading them; else what may differ, for a
// text: "Sq 3 and Sk 5", "lengths_k".
std::string unequal_lengths(const Attention& attention);

}  // namespace strobe
