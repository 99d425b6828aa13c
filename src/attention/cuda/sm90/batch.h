// What Hopper's kernels take of a problem beside the tensors that each of them names: a fifth of Params. The host pays
// for every byte of a kernel's arguments, about a nanosecond each.
#pragma once

#include <cstdint>

#include "attention/cuda/params.h"

#if defined(__CUDACC__)
#define STROBE_HOST_AND_DEVICE __host__ __device__ __forceinline__
#else
#define STROBE_HOST_AND_DEVICE inline
#endif

namespace strobe::cuda::sm90 {

struct Batch;
template <class From, class To>
STROBE_HOST_AND_DEVICE void copy_batch(const From& from, To& to);

// As in Params.
struct Batch {
  std::int64_t total_q = 0, total_k = 0;
  Indices lengths_q, lengths_k, cu_seqlens_q, cu_seqlens_k;
  std::int32_t batch = 0, heads_q = 0, heads_kv = 0, group = 1;
  std::int32_t max_q = 0, max_k = 0;
  std::int32_t d = 0, dv_dim = 0;
  std::int32_t window_left = -1, window_right = -1;
  float scale = 1;
  bool packed = false, bottom_right = false;

  Batch() = default;
  explicit Batch(const Params& params) { copy_batch(params, *this); }

#if defined(__CUDACC__)
  // For functions that all CUDA kernels share; the compiler leaves nothing of the fields that are not read.
  __device__ __forceinline__ operator Params() const {
    Params params;
    copy_batch(*this, params);
    return params;
  }
#endif
};

template <class From, class To>
STROBE_HOST_AND_DEVICE void copy_batch(const From& from, To& to) {
  to.total_q = from.total_q;
  to.total_k = from.total_k;
  to.lengths_q = from.lengths_q;
  to.lengths_k = from.lengths_k;
  to.cu_seqlens_q = from.cu_seqlens_q;
  to.cu_seqlens_k = from.cu_seqlens_k;
  to.batch = from.batch;
  to.heads_q = from.heads_q;
  to.heads_kv = from.heads_kv;
  to.group = from.group;
  to.max_q = from.max_q;
  to.max_k = from.max_k;
  to.d = from.d;
  to.dv_dim = from.dv_dim;
  to.window_left = from.window_left;
  to.window_right = from.window_right;
  to.scale = from.scale;
  to.packed = from.packed;
  to.bottom_right = from.bottom_right;
}

}  // namespace strobe::cuda::sm90

#undef STROBE_HOST_AND_DEVICE
