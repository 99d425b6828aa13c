// Properties of a problem that the plans of several CUDA kernels use, and reasons for which these plans refuse a
// problem.
#pragma once

#include <cstdint>
#include <string>

#include "attention/problem.h"

namespace strobe::cuda {

// True if every row is 16-byte aligned and a multiple of 16 bytes long; kernels then load and store 16-byte vectors.
// Strides of dimensions of size 1 do not count, because check_view.cpp replaced them by the size of the last dimension.
template <class Void>
bool in_vectors(const BasicView<Void>& view) {
  const auto bytes = static_cast<std::int64_t>(size_of(view.dtype));
  const auto whole = [&](std::int64_t elements) { return elements * bytes % 16 == 0; };
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && view.stride[3] == 1 && whole(view.shape[3]) &&
         whole(view.stride[0]) && whole(view.stride[1]) && whole(view.stride[2]);
}

// Number of LSE entries: rows of all query heads and all sequences.
std::int64_t rows_of(const Problem& problem);

bool has_few_keys(const Problem& problem);

// True if the problem has a score option that the plain kernels of flash2 do not support.
bool has_score_options(const Problem& problem);

// True if there is no bias, or if the bias has 16-bit elements and aligned rows. Kernels other than the general ones
// then load it with 16-byte cp.async.
bool bias_takes_vectors(const Problem& problem);

template <class... Views>
bool all_in_vectors(const Views&... views) {
  return (in_vectors(views) && ...);
}

// Outputs and dO are unknown if the caller asks only for the workspace size or an explanation.
inline bool outputs_are_known(const Problem& problem) {
  return problem.pass == Pass::forward ? problem.o.data != nullptr : problem.dq.data != nullptr;
}

// Returns why no CUDA kernel of this build takes the problem, or an empty string. Reasons: the GPU is too old, only CPU
// kernels support an option, or rows plus keys exceed 2^30.
std::string common_refusal(const Problem& problem);

// Returns why no tiled kernel takes the problem: common_refusal(), or a head dimension above kMostTiledDim.
std::string tiled_refusal(const Problem& problem);

// Reason of a plan that needs more shared memory than the GPU has.
std::string shared_bytes_refusal(const Problem& problem, std::size_t needed);

}  // namespace strobe::cuda
