// Reasons for which the plans of the Hopper kernels refuse a problem, and the properties that they depend on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "attention/problem.h"

namespace strobe::cuda::sm90 {

// True if rows may see different numbers of keys, because of a mask or of sequence lengths.
bool is_uneven(const Problem& problem);

// True if dropout can drop a probability. It cannot if p is below 2^-17, because the kernels round p to a multiple of
// 2^-16.
bool drops(const Problem& problem);

// ScoreTerms::one: the kernel supports either ALiBi or a 16-bit bias with 16-byte aligned rows, without dropout.
enum class ScoreTerms { none, alibi, one };

// Returns the name of a score option of the problem that the kernel does not support, or null. dropout: the name to
// return for dropout, or null if the kernel supports dropout.
const char* option_refused(const Problem& problem, const char* dropout, ScoreTerms terms = ScoreTerms::none);

// Returns a name if the problem has ALiBi, so that dropout is refused; kernels support one of the two. Otherwise null.
const char* drops_with_alibi(const Problem& problem);

// Each *_refusal() function returns an empty string if it finds no reason to refuse.

// Up to this number of rows per group of query heads flash2 packs the heads into one tile and splits the keys.
inline constexpr std::int64_t kFewRows = 64;

// Refuses a problem that no Hopper kernel supports, that uses `option`, whose head dimensions exceed most_dim, whose
// keys are so few that flash2 is more exact, or whose rows are at most few_rows. option: name of a feature of the
// problem that the kernel does not support, or null.
std::string problem_refusal(const Problem& problem, const char* option, std::int64_t most_dim,
                            std::int64_t few_rows = kFewRows);

// Refuses a tensor that TMA cannot read. name: name of the tensor in the text.
std::string map_refusal(const char* name, const ConstView& view);

// Refuse inputs, or outputs and dO, whose rows are not whole 16-byte vectors. Outputs and dO are checked only if they
// are known.
std::string input_refusal(const Problem& problem);
std::string output_refusal(const Problem& problem);

// Refuses a GPU with too little shared memory. Every tile fits a Hopper GPU, so this happens only if a test or
// STROBE_CUDA_SHARED_KB simulates a smaller one.
std::string shared_refusal(const Problem& problem, std::size_t needed);

// Refuses 2^31 or more tiles. least: the smallest number of rows or keys per tile.
std::string tiles_refusal(const Problem& problem, std::int64_t least);

// Workspace bytes of a plan that needs `own` bytes. If outputs are unknown, flash2 may run instead, so the result is
// the larger of both needs.
std::size_t bytes_with_flash2(const Problem& problem, std::size_t own);

}  // namespace strobe::cuda::sm90
