// Launches the CUDA kernels of `standard` and `frugal` other than GEMMs: softmax over materialised scores, its
// gradient, and copies between the caller's tensors and contiguous ones. The .cu files of this folder define these
// functions; standard.cpp calls them.
#pragma once

#include <cstdint>

#include "attention/cuda/params.h"
#include "strobe/dtype.h"

namespace strobe::standard {

// Rows [first, first + count) of score matrices, numbered in the order [B, Hq, max_seqlen_q], in the problem's dtype. A
// row has `stride` elements (max_seqlen_k padded). Pointers in the structs below point to row `first`, except
// sink_weight.
struct RowRange {
  std::int64_t first = 0, count = 0, stride = 0;
};

struct Scores {
  RowRange rows;
  const void* scores = nullptr;   // in: scale * q.k
  void* probabilities = nullptr;  // out, 0 where masked (in forward with dropout applied); may be `scores`
  void* dropped = nullptr;        // backward with dropout, out: probabilities after dropout; may be `scores`
  void* tanh = nullptr;           // backward with softcap, out: tanh(s / softcap)
  float* sink_weight = nullptr;   // backward with sinks, out: the sink's probabilities [B, Hq, max_seqlen_q]
};

// Applies score options, mask, softmax and dropout. Writes LSE if write_lse is set and the problem has LSE (forward).
void softmax(DType dtype, const cuda::Params& params, const Scores& scores, bool write_lse, void* stream);

// Gradients of the matrices in Scores, for the same rows.
struct ScoreGradients {
  RowRange rows;
  const void* probabilities = nullptr;
  const void* d_probabilities = nullptr;  // in: gradient of the probabilities after dropout
  void* d_scores = nullptr;               // out: see each function; may be `d_probabilities`
  const void* tanh = nullptr;             // with softcap, in: tanh(s / softcap)
  cuda::Tensor d_lse;                     // in: gradient of LSE; data is null if there is none
  float* sink_weight = nullptr;  // with sinks, [B, Hq, max_seqlen_q], in: probabilities; out: contributions to dsinks
};

// Computes d_scores as the gradient of the logits, through dropout and softmax.
void softmax_backward(DType dtype, const cuda::Params& params, const ScoreGradients& scores, void* stream);

// Converts d_scores in place from the gradient of the logits to that of q.k, through softcap and scale.
void options_backward(DType dtype, const cuda::Params& params, const ScoreGradients& scores, void* stream);

// Variants of softmax() and softmax_backward() for problems without score options whose rows fit in registers.
// plain_softmax_backward() includes options_backward(). Both return false, and do nothing, for other problems.
bool plain_softmax(DType dtype, const cuda::Params& params, const Scores& scores, bool write_lse, void* stream);
bool plain_softmax_backward(DType dtype, const cuda::Params& params, const ScoreGradients& scores, void* stream);

struct BiasShape {
  std::int32_t batch, heads, rows;  // 1 if broadcast
};
// Computes dbias: each element is the sum of d_scores (the gradient of the logits) over all scores that share the
// element, in a fixed order. `scores` must have the rows of all heads.
void sum_dbias(DType dtype, const cuda::BackwardParams& params, const ScoreGradients& scores, const BiasShape& shape,
               void* stream);

// Computes dsinks: sums the contributions of the rows, `parts` [B, Hq, max_seqlen_q], per head in a fixed order.
void sum_dsinks(const cuda::BackwardParams& params, const float* parts, void* stream);

// Selects the lengths that apply to a tensor: those of queries or those of keys.
enum class Side { queries, keys };

// A copy between a range of sequences and heads of the caller's tensor [B, heads, rows, cols] and contiguous rows
// [batches, heads, max_seqlen_q or max_seqlen_k, row].
struct Copy {
  cuda::Tensor tensor;
  void* rows = nullptr;
  std::int64_t first_batch = 0, batches = 0;
  std::int64_t first_head = 0, heads = 0;
  std::int32_t cols = 0;
  std::int64_t row = 0;  // elements from one row to the next
  Side side = Side::queries;
  cuda::Indices first_keys{};
};
// Copies the caller's tensor to the contiguous rows, and writes zeros to rows past a sequence's length and to keys that
// are left padding.
void gather(DType dtype, const cuda::SequenceParams& params, const Copy& copy, void* stream);
// Copies the contiguous rows to the caller's tensor; in a packed batch, only rows within a sequence's length.
void scatter(DType dtype, const cuda::SequenceParams& params, const Copy& copy, void* stream);

}  // namespace strobe::standard
