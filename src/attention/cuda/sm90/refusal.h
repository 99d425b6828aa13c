// Shared by the plans of the four Hopper kernels: facts of a problem, and reasons to refuse it.
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

// The first score option that no Hopper kernel has, or null. dropout: the text if the kernel has no dropout, else null.
const char* option_refused(const Problem& problem, const char* dropout);

// The reasons below are empty if there is none. option: names a feature of the problem that the kernel does not have,
// or null.
std::string problem_refusal(const Problem& problem, const char* option, std::int64_t most_dim);

// TMA cannot read the tensor. name: the tensor's, for the text.
std::string map_refusal(const char* name, const ConstView& view);

// Inputs or outputs whose rows are not whole 16-byte vectors. Outputs count only where they are known.
std::string input_refusal(const Problem& problem);
std::string output_refusal(const Problem& problem);

// The card has too little shared memory: no tile needs more than a Hopper has, so this is a card made up by a test or
// by STROBE_CUDA_SHARED_KB.
std::string shared_refusal(const Problem& problem, std::size_t needed);

// More than 31 bits of tiles of at least `least` rows or keys.
std::string tiles_refusal(const Problem& problem, std::int64_t least);

// A plan's bytes; those of flash2 too where outputs are unknown, which may make it take over.
std::size_t bytes_with_flash2(const Problem& problem, std::size_t own);

}  // namespace strobe::cuda::sm90
