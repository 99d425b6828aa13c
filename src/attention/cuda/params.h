// Kernel parameters: the problem as device pointers and strides in elements, without host state. params.cpp fills these
// structs from a Problem. A kernel takes by value only the structs that it reads: each byte of arguments adds about one
// nanosecond of host time to a launch.
#pragma once

#include <cstdint>

namespace strobe {
struct Problem;
}

namespace strobe::cuda {

// Strides of a [batch, head, row, column] tensor. The column stride is 1, or 0 for an expanded dO. In a packed batch
// `batch` is 0 and a sequence begins at row cu_seqlens[b].
struct Tensor {
  void* data = nullptr;
  std::int64_t batch = 0, head = 0, row = 0;
  std::int32_t column = 1;
  bool vectors = false;  // every row is 16-byte aligned and a multiple of 16 bytes long
};

// A device array of int32, or of int64 if `wide`; `data` is null if the problem has no such array.
struct Indices {
  const void* data = nullptr;
  bool wide = false;
};

// With at most this many keys, the rounding of O and LSE is visible in the gradients, so kernels compute these problems
// more exactly.
inline constexpr std::int32_t kFewKeys = 32;

// Sequences of a batch and their mask. Every CUDA kernel reads these.
struct SequenceParams {
  std::int64_t total_q = 0, total_k = 0;  // rows of the views of q and k: Sq and Sk, or all packed rows
  Indices lengths_q, lengths_k, cu_seqlens_q, cu_seqlens_k;
  std::int32_t batch = 0, heads_q = 0, heads_kv = 0, group = 1;
  std::int32_t max_seqlen_q = 0, max_seqlen_k = 0;   // rows and keys of the longest sequence
  std::int32_t d = 0, dv_dim = 0;                    // head dimensions of q, k and of v, o
  std::int32_t window_left = -1, window_right = -1;  // -1: no limit; a causal mask is window_right = 0
  float scale = 1;
  bool packed = false, bottom_right = false;  // bottom_right: aligns row i with key i + (Sk - Sq) instead of key i
};

// Output rows: the forward pass writes them, the backward pass reads them.
struct OutputParams : SequenceParams {
  Tensor o;                      // [B, Hq, Sq, Dv]
  float* lse = nullptr;          // [B, Hq, Sq], or [Hq, total] in a packed batch; natural logarithm
  const float* sinks = nullptr;  // [Hq]
};

// Boolean mask of bytes [B, Hq, Sq, Sk]: nonzero where a row may use a key. Strides are 0 where broadcast.
struct MaskTensor {
  const unsigned char* data = nullptr;  // null: no mask
  std::int64_t batch = 0, head = 0, row = 0, key = 0;
};

// Options that the Hopper kernels support in part or not at all.
struct ScoreParams {
  Tensor bias;  // [B, Hq, Sq, Sk], stride 0 where broadcast
  MaskTensor mask;
  Indices first_keys;                     // [B]: left padding
  const float* alibi_slopes = nullptr;    // [Hq], or [B, Hq]
  std::int64_t alibi_batch = 0;           // elements between the slopes of consecutive sequences; 0: shared
  float softcap = 0;                      // 0: no cap
  bool bias_fp32 = false;                 // otherwise the bias has the dtype of q
  std::uint32_t dropout_threshold = 0;    // as dropout_threshold() in core/philox.h; 0: no dropout
  float dropout_scale = 1;                // factor of kept probabilities
  std::uint32_t philox_keys[10][2] = {};  // round keys, from the dropout seed
};

struct InputParams {
  Tensor q, k, v;  // [B, Hq, Sq, D], [B, Hkv, Sk, D], [B, Hkv, Sk, Dv]
};

struct Params : InputParams, OutputParams, ScoreParams {};

struct BackwardParams : Params {
  Tensor d_o;               // [B, Hq, Sq, Dv]
  Tensor dq, dk, dv;        // shapes of q, k, v
  Tensor d_lse;             // [B, Hq, Sq], fp32; null: 0
  Tensor dbias;             // shape of bias, fp32
  float* dsinks = nullptr;  // [Hq]
};

SequenceParams sequence_params_of(const Problem& problem);
Params params_of(const Problem& problem);
BackwardParams backward_params_of(const Problem& problem);

}  // namespace strobe::cuda
