// Sequence of the batch that a block processes: its first row and key, its lengths and the keys that a row may use.
// Hopper kernels except decode construct a Sequence from SequenceParams; the others construct a PaddedSequence.
#pragma once

#include "attention/cuda/params.h"

namespace strobe::cuda {

__device__ __forceinline__ std::int64_t index_at(const Indices& indices, std::int64_t at) {
  return indices.wide ? static_cast<const std::int64_t*>(indices.data)[at]
                      : static_cast<const std::int32_t*>(indices.data)[at];
}

__device__ __forceinline__ std::int64_t clamp64(std::int64_t value, std::int64_t low, std::int64_t high) {
  return value < low ? low : value > high ? high : value;
}

struct Keys {
  int lo, hi;  // [lo, hi); empty if lo >= hi
};

// Functions take SequenceParams by value. With a reference the compiler branches around loads and reloads fields after
// each store, which costs about 100 instructions per kernel.
struct Sequence {
  std::int64_t q_begin, k_begin;  // first row and key in the views
  int seqlen_q, seqlen_k;
  int offset;       // row i is aligned with key i + offset
  int left, right;  // window_left and window_right

  // The caller supplies the offsets and lengths on the device. Clamping ensures that no value causes an access outside
  // the tensors.
  __device__ __forceinline__ Sequence(SequenceParams p, int b) {
    if (p.packed) {
      q_begin = clamp64(index_at(p.cu_seqlens_q, b), 0, p.total_q);
      k_begin = clamp64(index_at(p.cu_seqlens_k, b), 0, p.total_k);
      const std::int64_t q_end = clamp64(index_at(p.cu_seqlens_q, b + 1), q_begin, p.total_q);
      const std::int64_t k_end = clamp64(index_at(p.cu_seqlens_k, b + 1), k_begin, p.total_k);
      seqlen_q = static_cast<int>(clamp64(q_end - q_begin, 0, p.max_seqlen_q));
      seqlen_k = static_cast<int>(clamp64(k_end - k_begin, 0, p.max_seqlen_k));
    } else {
      q_begin = k_begin = 0;
      seqlen_q =
          p.lengths_q.data ? static_cast<int>(clamp64(index_at(p.lengths_q, b), 0, p.max_seqlen_q)) : p.max_seqlen_q;
      seqlen_k =
          p.lengths_k.data ? static_cast<int>(clamp64(index_at(p.lengths_k, b), 0, p.max_seqlen_k)) : p.max_seqlen_k;
    }
    offset = p.bottom_right ? seqlen_k - seqlen_q : 0;
    left = p.window_left;
    right = p.window_right;
  }

  // Keys that row i may use.
  __device__ __forceinline__ Keys allowed(int i) const {
    const int diagonal = i + offset;
    const int lo = left < 0 ? 0 : max(0, diagonal - left);
    const int hi = right < 0 ? seqlen_k : min(seqlen_k, diagonal + right + 1);
    return {lo, hi};
  }

  // some(): keys that at least one row of [first, last] may use; all(): keys that every row may use. Both bounds of
  // allowed() increase with i.
  __device__ __forceinline__ Keys some(int first, int last) const { return {allowed(first).lo, allowed(last).hi}; }
  __device__ __forceinline__ Keys all(int first, int last) const { return {allowed(last).lo, allowed(first).hi}; }

  // Rows [lo, hi) that may use some key of [first, last].
  __device__ __forceinline__ Keys rows_of(int first, int last) const {
    const int lo = right < 0 ? 0 : max(0, first - offset - right);
    const int hi = left < 0 ? seqlen_q : min(seqlen_q, last - offset + left + 1);
    return {lo, hi};
  }

  // Number of rows of O and dQ, or of keys of dK and dV, to write for this sequence. In a padded batch they include
  // those past its length, which become zeros.
  __device__ __forceinline__ int rows_written(SequenceParams p) const { return p.packed ? seqlen_q : p.max_seqlen_q; }
  __device__ __forceinline__ int keys_written(SequenceParams p) const { return p.packed ? seqlen_k : p.max_seqlen_k; }
};

// A sequence with left padding: no row uses a key before `first_valid`. Keys keep their indices. Its members hide those
// of Sequence, so code that calls them takes a PaddedSequence.
struct PaddedSequence : Sequence {
  int first_valid;  // 0 to seqlen_k

  __device__ __forceinline__ PaddedSequence(const Sequence& sequence, Indices first_keys, int b)
      : Sequence(sequence),
        first_valid(first_keys.data ? static_cast<int>(clamp64(index_at(first_keys, b), 0, seqlen_k)) : 0) {}
  template <class P>
  __device__ __forceinline__ PaddedSequence(const P& p, int b) : PaddedSequence(Sequence(p, b), p.first_keys, b) {}

  __device__ __forceinline__ Keys allowed(int i) const {
    const Keys keys = Sequence::allowed(i);
    return {max(keys.lo, first_valid), keys.hi};
  }
  __device__ __forceinline__ Keys some(int first, int last) const { return {allowed(first).lo, allowed(last).hi}; }
  __device__ __forceinline__ Keys all(int first, int last) const { return {allowed(last).lo, allowed(first).hi}; }
  __device__ __forceinline__ Keys rows_of(int first, int last) const {
    return last < first_valid ? Keys{0, 0} : Sequence::rows_of(first, last);
  }
};

// Index of row i in LSE: [B, Hq, Sq], or [Hq, total] in a packed batch.
__device__ __forceinline__ std::int64_t lse_index(SequenceParams p, const Sequence& sequence, int b, int h, int i) {
  return (p.packed ? h * p.total_q : (static_cast<std::int64_t>(b) * p.heads_q + h) * p.total_q) + sequence.q_begin + i;
}

// Element offset of head h in sequence b, at row `begin` of the view.
__device__ __forceinline__ std::int64_t head_offset(const Tensor& tensor, int b, int h, std::int64_t begin) {
  return b * tensor.batch + h * tensor.head + begin * tensor.row;
}

}  // namespace strobe::cuda
