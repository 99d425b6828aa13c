// A problem as CUDA kernels read it: device pointers, strides in elements, nothing of the host. Filled from Problem by
// params.cpp, passed by value to every kernel of src/attention/cuda and src/attention/standard/cuda.
#pragma once

#include <cstdint>
#include <string>

namespace strobe {
struct Problem;
}

namespace strobe::cuda {

// [batch, head, row, column]; the column stride is 1, or 0 for an expanded dO. In a packed batch `batch` is 0 and a
// sequence begins at row cu_seqlens[b].
struct Tensor {
  void* data = nullptr;
  std::int64_t batch = 0, head = 0, row = 0;
  std::int32_t column = 1;
  bool vectors = false;  // every row begins at a multiple of 16 bytes and is a whole number of them
};

// A device array of int32 or int64; null where the problem has none.
struct Indices {
  const void* data = nullptr;
  bool wide = false;
};

// Up to so many keys the gradients show how O and LSE were rounded; kernels then take more care.
inline constexpr std::int32_t kFewKeys = 32;

struct Params {
  Tensor q, k, v;        // [B, Hq, Sq, D], [B, Hkv, Sk, D], [B, Hkv, Sk, Dv]
  Tensor o, d_o;         // [B, Hq, Sq, Dv]
  Tensor dq, dk, dv;     // of the shapes of q, k, v
  Tensor bias, dbias;    // [B, Hq, Sq, Sk], stride 0 where broadcast; dbias is fp32
  float* lse = nullptr;  // [B, Hq, Sq], or [Hq, total] in a packed batch; natural logarithm
  const float *alibi_slopes = nullptr, *sinks = nullptr;  // [Hq]
  float* dsinks = nullptr;                                // [Hq]

  std::int32_t batch = 0, heads_q = 0, heads_kv = 0, group = 1;
  std::int32_t max_q = 0, max_k = 0;      // no sequence is longer
  std::int32_t d = 0, dv_dim = 0;         // head dimensions of q, k and of v, o
  std::int64_t total_q = 0, total_k = 0;  // rows of the views of q and k: Sq and Sk, or all packed rows
  bool packed = false;
  Indices lengths_q, lengths_k, cu_seqlens_q, cu_seqlens_k;

  float scale = 1, softcap = 0;                      // 0: no cap
  std::int32_t window_left = -1, window_right = -1;  // -1: open; a causal mask is window_right = 0
  bool bottom_right = false;                         // row i stands at key i + (Sk - Sq) instead of i
  bool bias_fp32 = false;                            // else the bias has the dtype of q

  std::uint32_t dropout_threshold = 0;    // kept where the Philox word is at least this; 0: no dropout
  float dropout_scale = 1;                // 1 / (1 - p)
  std::uint32_t philox_keys[10][2] = {};  // of the rounds, from the dropout's seed
};

Params params_of(const Problem& problem);

// All rows of all query heads, as LSE counts them.
std::int64_t rows_of(const Problem& problem);

// Why no CUDA kernel of this build takes the problem: the card is too old, or sizes pass 32 bits. Empty: some may.
std::string common_refusal(const Problem& problem);

}  // namespace strobe::cuda
