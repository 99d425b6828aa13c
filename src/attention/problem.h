// A validated attention problem, in which defaults are set and sizes are checked. validate.cpp creates it; kernels read
// nothing else.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "device/gpu_facts.h"
#include "strobe/attention.h"

namespace strobe {

// Largest head dimension of the tiled kernels, flash2 and hopper. Kernels that materialise scores support any.
inline constexpr std::int64_t kMostTiledDim = 256;

// Position of one sequence in the views: its first row and first key, and the numbers of rows and keys. With left
// padding (first_keys) the extent leaves out the padding, so key j of the extent is key j + k_skipped of the sequence.
struct Extent {
  std::int64_t q_begin, seqlen_q;
  std::int64_t k_begin, seqlen_k;
  std::int64_t k_skipped = 0;
};

// The keys [lo, hi) of an extent that a row may use, unless a boolean mask excludes some.
struct Interval {
  std::int64_t lo, hi;
};

// Rows of one head in the caller's memory: the first row and the distance between rows.
struct Rows {
  const char* data;
  std::int64_t stride_bytes;
  const char* operator[](std::int64_t i) const { return data + i * stride_bytes; }
};

struct Problem {
  Pass pass = Pass::forward;
  Device device = Device::cpu;
  DType dtype = DType::fp32;
  int threads = 1;
  std::string cpu_isa;  // STROBE_CPU_ISA at the start of the call; empty selects the best instruction set
  bool deterministic = true;
  bool tf32 = false;       // fp32 on CUDA only
  GpuFacts gpu;            // CUDA: properties of the current GPU; tests may describe another GPU
  void* stream = nullptr;  // CUDA: the caller's cudaStream_t

  std::int64_t batch = 0;  // number of sequences, also in a packed batch
  std::int64_t heads_q = 0;
  std::int64_t heads_kv = 0;
  std::int64_t group = 1;  // heads_q / heads_kv
  // Upper bounds of the lengths of queries and keys. They are Sq and Sk in a padded batch. In a packed batch they are
  // the caller's max_seqlen_q and max_seqlen_k if given. Otherwise they are the longest lengths on the CPU, and the
  // total lengths on CUDA, where offsets are not read.
  std::int64_t max_seqlen_q = 0;
  std::int64_t max_seqlen_k = 0;
  std::int64_t d = 0;   // head dimension of q and k
  std::int64_t dv = 0;  // head dimension of v and o
  bool packed = false;  // sequences are stored back to back in views of batch 1

  float scale = 1;
  bool causal = false;
  Window window;
  Alignment alignment = Alignment::top_left;
  float softcap = 0;
  const float* alibi_slopes = nullptr;
  std::int64_t alibi_batch_stride = 0;
  const float* sinks = nullptr;
  Dropout dropout;  // on the CPU `seed` already has the value from seed_data
  ConstView bias;   // strides of broadcast dimensions are 0 here
  bool has_bias = false;
  MaskView mask;  // strides of broadcast dimensions are 0 here
  bool has_mask = false;
  bool batch_invariant = false;

  ConstView q, k, v;
  View o;                // output of forward
  float* lse = nullptr;  // forward; may be null
  ConstView o_in, d_o;   // inputs of backward
  const float* lse_in = nullptr;
  const float* d_lse = nullptr;              // backward; may be null
  std::array<std::int64_t, 3> lse_stride{};  // of lse or lse_in: batch, head, row
  std::array<std::int64_t, 3> d_lse_stride{};
  bool lse_contiguous = true;  // true if LSE is contiguous or not given
  View dq, dk, dv_out;
  View dbias;  // strides of broadcast dimensions are 0 here
  float* dsinks = nullptr;
  // True if the caller requests the optional gradient. A kernel's workspace may depend on these flags. In a workspace
  // query, where data pointers are null, a flag is true if the problem has the corresponding input.
  bool wants_dbias = false;
  bool wants_dsinks = false;

  IndexView lengths_q, lengths_k, cu_seqlens_q, cu_seqlens_k, first_keys;
  std::int64_t total_q = 0;  // rows of q's view: Sq, or all packed rows

  bool masked() const { return causal || window.left >= 0 || window.right >= 0; }

  // For the CPU only, because on CUDA lengths and offsets are in GPU memory.
  Extent extent(std::int64_t b) const {
    Extent extent{0, lengths_q ? lengths_q[b] : max_seqlen_q, 0, lengths_k ? lengths_k[b] : max_seqlen_k};
    if (packed) {
      extent = {cu_seqlens_q[b], cu_seqlens_q[b + 1] - cu_seqlens_q[b], cu_seqlens_k[b],
                cu_seqlens_k[b + 1] - cu_seqlens_k[b]};
    }
    if (first_keys) {
      extent.k_skipped = std::min(first_keys[b], extent.seqlen_k);
      extent.k_begin += extent.k_skipped;
      extent.seqlen_k -= extent.k_skipped;
    }
    return extent;
  }

  // Returns the offset of the diagonal: row i of a sequence is aligned with key i + offset of its extent.
  std::int64_t offset(const Extent& extent) const {
    return alignment == Alignment::bottom_right ? extent.seqlen_k - extent.seqlen_q : -extent.k_skipped;
  }

  Interval allowed(const Extent& extent, std::int64_t i) const {
    const std::int64_t diagonal = i + offset(extent);
    std::int64_t lo = 0;
    std::int64_t hi = extent.seqlen_k;
    if (causal) hi = std::min(hi, diagonal + 1);
    if (window.left >= 0) lo = std::min(std::max(lo, diagonal - window.left), extent.seqlen_k);
    if (window.right >= 0) hi = std::min(hi, diagonal + window.right + 1);
    return {lo, std::max(lo, hi)};
  }

  // Returns the ALiBi slope of head hq in sequence b. Requires alibi_slopes.
  float slope(std::int64_t b, std::int64_t hq) const { return alibi_slopes[b * alibi_batch_stride + hq]; }

  // Returns the address of the boolean mask's element for row i and the extent's first key. Elements of consecutive
  // keys are mask.stride[3] bytes apart. Requires has_mask.
  const unsigned char* mask_row(const Extent& extent, std::int64_t b, std::int64_t hq, std::int64_t i) const {
    const auto& stride = mask.stride;
    return static_cast<const unsigned char*>(mask.data) + b * stride[0] + hq * stride[1] + i * stride[2] +
           extent.k_skipped * stride[3];
  }

  // Returns true if the interval has a key that the boolean mask, if there is one, allows.
  bool allows_any(const Extent& extent, std::int64_t b, std::int64_t hq, std::int64_t i, const Interval& keys) const {
    if (!has_mask) return keys.lo < keys.hi;
    const unsigned char* const row = mask_row(extent, b, hq, i);
    for (std::int64_t j = keys.lo; j < keys.hi; ++j) {
      if (row[j * mask.stride[3]] != 0) return true;
    }
    return false;
  }

  // Returns the rows of sequence b and head h of a tensor, from row `begin` of the view on.
  template <class Void>
  Rows rows(const BasicView<Void>& view, std::int64_t b, std::int64_t h, std::int64_t begin) const {
    const auto bytes = static_cast<std::int64_t>(size_of(view.dtype));
    const std::int64_t first = (packed ? 0 : b * view.stride[0]) + h * view.stride[1] + begin * view.stride[2];
    return {static_cast<const char*>(view.data) + first * bytes, view.stride[2] * bytes};
  }

  // Returns the index in LSE of row i of sequence b and head h. begin: first row of the sequence in the views. LSE is
  // [B, Hq, Sq], or [Hq, total] in a packed batch.
  std::int64_t lse_index(std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t i) const {
    return (packed ? 0 : b * lse_stride[0]) + h * lse_stride[1] + (begin + i) * lse_stride[2];
  }

  // Returns the gradient of a row's LSE, or 0 if the call has none. Not called for rows without keys.
  float d_lse_of(std::int64_t b, std::int64_t h, std::int64_t begin, std::int64_t i) const {
    if (!d_lse) return 0;
    return d_lse[(packed ? 0 : b * d_lse_stride[0]) + h * d_lse_stride[1] + (begin + i) * d_lse_stride[2]];
  }
};

}  // namespace strobe
