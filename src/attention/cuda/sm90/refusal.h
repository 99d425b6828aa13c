// Properties of a problem and reasons to refuse it, shared by the plans of the four Hopper kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "attention/problem.h"

namespace strobe::cuda::sm90 {

// True if rows see different numbers of keys.
bool is_uneven(const Problem& problem);

// True if a probability may be dropped: with p below 2^-32 the kernels' threshold is 0.
bool drops(const Problem& problem);

// Returns the first score option that no Hopper kernel supports, or null. dropout: the text if the kernel does not
// support dropout, otherwise null.
const char* option_refused(const Problem& problem, const char* dropout);

// The functions below return an empty string if there is no reason. option: names a feature of the problem that the
// kernel does not support, or null.
std::string problem_refusal(const Problem& problem, const char* option, std::int64_t most_dim);

// Reason why TMA cannot read the tensor. name: tensor name for the text.
std::string map_refusal(const char* name, const ConstView& view);

// Refuses inputs or outputs whose rows are not whole 16-byte vectors. Outputs count only if they are known.
std::string input_refusal(const Problem& problem);
std::string output_refusal(const Problem& problem);

// Refuses a GPU with too little shared memory: one simulated by a test or by STROBE_CUDA_SHARED_KB. No tile needs more
// than a Hopper GPU has.
std::string shared_refusal(const Problem& problem, std::size_t needed);

// Refuses more than 31 bits of tiles of at least `least` rows or keys.
std::string tiles_refusal(const Problem& problem, std::int64_t least);

// Workspace bytes of a plan. If outputs are unknown, flash2 may replace this kernel, so its bytes count too.
std::size_t bytes_with_flash2(const Problem& problem, std::size_t own);

}  // namespace strobe::cuda::sm90
