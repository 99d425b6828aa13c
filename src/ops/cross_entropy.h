// Mean cross-entropy over rows of logits, and its gradient, written in place of the logits.
#pragma once

#include <cstdint>

#include "ops/place.h"
#include "strobe/dtype.h"

namespace strobe::ops {

struct CrossEntropy {
  std::int64_t rows = 0, vocabulary = 0;
  DType dtype = DType::fp32;          // type of the logits
  float gradient_scale = 1;           // gradient factor in addition to 1 / rows, for parts of a batch
  const float* loss_scale = nullptr;  // another factor, on the device of the tensors: it may change between launches of
                                      // a graph
};

// losses [rows]: log(sum exp(logit)) - logit[target], stable for any finite logits.
void cross_entropy(const Place& place, const CrossEntropy& shape, const void* logits, const std::int32_t* target,
                   float* losses);

// Also replaces the logits by (softmax - onehot(target)) * gradient_scale / rows.
void cross_entropy_with_gradient(const Place& place, const CrossEntropy& shape, void* logits,
                                 const std::int32_t* target, float* losses);

// Mean of losses in host memory, summed in a fixed order.
double mean_of(const float* losses, std::int64_t rows);

}  // namespace strobe::ops
