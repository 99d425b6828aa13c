// Cross-entropy of each row of logits, and the gradient of the mean, which overwrites the logits. Called by lm/.
#pragma once

#include <cstdint>

#include "ops/execution_context.h"
#include "strobe/dtype.h"

namespace strobe::ops {

struct CrossEntropy {
  std::int64_t rows = 0, vocabulary = 0;
  DType dtype = DType::fp32;          // type of the logits
  float gradient_scale = 1;           // factor of the gradient in addition to 1 / rows, for partial batches
  const float* loss_scale = nullptr;  // further factor of the gradient, in device memory so that it may change between
                                      // graph launches; null: 1
};

// Computes losses [rows]: log(sum exp(logit)) - logit[target]. Stable for any finite logits.
void cross_entropy(const ExecutionContext& execution, const CrossEntropy& shape, const void* logits,
                   const std::int32_t* target, float* losses);

// Computes losses as cross_entropy() does, and overwrites the logits with (softmax - onehot(target)) * gradient_scale *
// loss_scale / rows.
void cross_entropy_with_gradient(const ExecutionContext& execution, const CrossEntropy& shape, void* logits,
                                 const std::int32_t* target, float* losses);

// Returns the mean of `rows` losses in host memory, summed in a fixed order.
double mean_of(const float* losses, std::int64_t rows);

}  // namespace strobe::ops
