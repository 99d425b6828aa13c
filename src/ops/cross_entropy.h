// Mean cross-entropy over rows of logits, and its gradient in their place.
#pragma once

#include <cstdint>

#include "ops/place.h"
#include "strobe/dtype.h"

namespace strobe::ops {

struct CrossEntropy {
  std::int64_t rows = 0, vocabulary = 0;
  DType dtype = DType::fp32;          // of the logits
  float gradient_scale = 1;           // what the gradient is multiplied with beside 1 / rows: shares of a batch
  const float* loss_scale = nullptr;  // one more factor, where the tensors lie: it may change between runs of a graph
};

// losses [rows]: log(sum exp(logit)) - logit[target], stable for any finite logits.
void cross_entropy(const Place& place, const CrossEntropy& shape, const void* logits, const std::int32_t* target,
                   float* losses);

// The same, and logits become (softmax - one at the target) * gradient_scale / rows.
void cross_entropy_with_gradient(const Place& place, const CrossEntropy& shape, void* logits,
                                 const std::int32_t* target, float* losses);

// Of losses on the host, in one order.
double mean_of(const float* losses, std::int64_t rows);

}  // namespace strobe::ops
