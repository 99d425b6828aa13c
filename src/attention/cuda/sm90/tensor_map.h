// TMA tensor maps of the 16-bit kernels: elements [batch, head, row, column], loaded in boxes of 64 columns and
// box_rows rows, with zeros outside the tensor.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "attention/cuda/params.h"

namespace strobe::cuda::sm90 {

struct TensorSizes {
  std::int64_t batch, heads, rows, columns;
};

// Encodes a map on the host; allocates and caches nothing.
CUtensorMap tensor_map(const Tensor& tensor, const TensorSizes& sizes, int box_rows);

inline TensorSizes q_sizes(const SequenceParams& p) { return {p.packed ? 1 : p.batch, p.heads_q, p.total_q, p.d}; }
inline TensorSizes k_sizes(const SequenceParams& p) { return {p.packed ? 1 : p.batch, p.heads_kv, p.total_k, p.d}; }
inline TensorSizes v_sizes(const SequenceParams& p) {
  return {p.packed ? 1 : p.batch, p.heads_kv, p.total_k, p.dv_dim};
}
inline TensorSizes o_sizes(const SequenceParams& p) { return {p.packed ? 1 : p.batch, p.heads_q, p.total_q, p.dv_dim}; }

}  // namespace strobe::cuda::sm90
