// Implements cross_entropy.h on the CPU, and calls cuda/ for tensors on a GPU.
#include "ops/cross_entropy.h"

#include "ops/cpu/each_row.h"
#include "ops/cpu/isa.h"
#include "ops/cuda/launch.h"

namespace strobe::ops {

void cross_entropy(const ExecutionContext& execution, const CrossEntropy& shape, const void* logits,
                   const std::int32_t* target, float* losses) {
  if (execution.device == Device::cuda) {
    return cuda::cross_entropy(execution, shape, const_cast<void*>(logits), target, losses,
                               cuda::LogitsBecome::untouched);
  }
  const Isa& isa = chosen_isa();
  with_type(shape.dtype, [&]<class T>(T*) {
    each_row(execution.threads, shape.rows, shape.vocabulary, [&](std::int64_t r) {
      const T* const row = static_cast<const T*>(logits) + r * shape.vocabulary;
      losses[r] = isa.of<T>().log_sum_exp(row, shape.vocabulary) - widened(row[target[r]]);
    });
  });
}

void cross_entropy_with_gradient(const ExecutionContext& execution, const CrossEntropy& shape, void* logits,
                                 const std::int32_t* target, float* losses) {
  if (execution.device == Device::cuda) {
    return cuda::cross_entropy(execution, shape, logits, target, losses, cuda::LogitsBecome::gradient);
  }
  const float scale =
      shape.gradient_scale * (shape.loss_scale ? *shape.loss_scale : 1) / static_cast<float>(shape.rows);
  const Isa& isa = chosen_isa();
  with_type(shape.dtype, [&]<class T>(T*) {
    each_row(execution.threads, shape.rows, shape.vocabulary, [&](std::int64_t r) {
      T* const row = static_cast<T*>(logits) + r * shape.vocabulary;
      const float log_sum = isa.of<T>().log_sum_exp(row, shape.vocabulary);
      losses[r] = log_sum - widened(row[target[r]]);
      isa.of<T>().cross_entropy_gradient(row, shape.vocabulary, target[r], log_sum, scale);
    });
  });
}

double mean_of(const float* losses, std::int64_t rows) {
  double sum = 0;
  for (std::int64_t r = 0; r < rows; ++r) sum += losses[r];
  return rows == 0 ? 0 : sum / static_cast<double>(rows);
}

}  // namespace strobe::ops
