// The kernels of `standard` on CUDA that are not products: softmax over materialised scores and its gradient, and
// copies between the caller's tensors and contiguous ones. Launched by standard/cuda/standard.cpp; defined in the .cu
// files beside this one.
#pragma once

#include <cstdint>

#include "attention/cuda/params.h"
#include "strobe/dtype.h"

namespace strobe::standard {

// Scores of all heads, [B, Hq, max_q, row] in the problem's dtype; `row` is max_k padded.
struct Scores {
  void* weights = nullptr;       // in: scale * q.k; out: normalised weights, 0 where masked (forward: after dropout)
  void* dropped = nullptr;       // backward with dropout, out: the weights after it
  void* tanh = nullptr;          // backward with softcap, out: tanh(s / softcap)
  float* sink_weight = nullptr;  // backward with sinks, out: [B, Hq, max_q]
  std::int64_t row = 0;
};

// Options, mask, softmax, dropout; writes LSE where the problem has one to write (forward).
void softmax(DType dtype, const cuda::Params& params, const Scores& scores, bool write_lse, void* stream);

// Gradients of the same shape.
struct ScoreGradients {
  const void* weights = nullptr;
  void* gradients = nullptr;     // in: gradient of the dropped weights; out: see `to`
  const void* tanh = nullptr;    // with softcap
  float* sink_weight = nullptr;  // with sinks, in: weights; out: the row's part of dsinks
  std::int64_t row = 0;
};

// Back through dropout and softmax to the gradient of the logits.
void softmax_backward(DType dtype, const cuda::Params& params, const ScoreGradients& scores, void* stream);

// From the gradient of the logits to that of q.k, in place: softcap and scale.
void options_backward(DType dtype, const cuda::Params& params, const ScoreGradients& scores, void* stream);

// The same two where a problem has no score options and its rows are short enough to be held in registers; the second
// includes options_backward(). False, and nothing done, elsewhere.
bool plain_softmax(DType dtype, const cuda::Params& params, const Scores& scores, bool write_lse, void* stream);
bool plain_softmax_backward(DType dtype, const cuda::Params& params, const ScoreGradients& scores, void* stream);

// Sums of the gradient of the logits over what shares an element of the bias, and of the rows' parts of dsinks; each
// sum has one order.
struct BiasShape {
  std::int32_t batch, heads, rows;  // 1 where broadcast
};
void sum_dbias(DType dtype, const cuda::Params& params, const ScoreGradients& scores, const BiasShape& shape,
               void* stream);
void sum_dsinks(const cuda::Params& params, const float* parts, void* stream);

// A side of the problem: whose lengths count.
enum class Side { queries, keys };

// Between a tensor of the caller's, [B, heads, rows, cols], and contiguous rows [B, heads, max rows, row].
struct Copy {
  cuda::Tensor tensor;
  void* rows = nullptr;
  std::int32_t heads = 0, cols = 0;
  std::int64_t row = 0;  // elements from row to row
  Side side = Side::queries;
};
void gather(DType dtype, const cuda::Params& params, const Copy& copy, void* stream);   // zeros past a length
void scatter(DType dtype, const cuda::Params& params, const Copy& copy, void* stream);  // nothing past a packed length

}  // namespace strobe::standard
