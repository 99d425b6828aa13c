// Implements embedding.h on the CPU, and calls cuda/ for tensors on a GPU.
#include "ops/embedding.h"

#include <algorithm>

#include "device/host/thread_pool.h"
#include "ops/cpu/element.h"
#include "ops/cpu/sum.h"
#include "ops/cuda/launch.h"

namespace strobe::ops {

namespace {

constexpr std::int64_t kTokens = 64, kColumns = 64;  // tokens per task, columns per task of the gradient

}  // namespace

void embedding(const ExecutionContext& execution, const Embedding& shape, const std::int32_t* token, const float* table,
               void* y, const Positions& positions) {
  if (execution.device == Device::cuda) return cuda::embedding(execution, shape, token, table, y, positions);
  with_type(shape.dtype, [&]<class T>(T*) {
    parallel_for(execution.threads, tasks_of(shape.tokens, kTokens), [&](int, std::int64_t task) {
      for (std::int64_t t = task * kTokens; t < std::min(shape.tokens, (task + 1) * kTokens); ++t) {
        const float* const from = table + token[t] * shape.width;
        T* const to = static_cast<T*>(y) + t * shape.width;
        if (!positions.table) {
          for (std::int64_t i = 0; i < shape.width; ++i) to[i] = narrowed<T>(from[i]);
          continue;
        }
        const float* const position = positions.table + t % positions.context * shape.width;
        for (std::int64_t i = 0; i < shape.width; ++i) to[i] = narrowed<T>(from[i] + position[i]);
      }
    });
  });
}

// Tasks divide the columns instead of the tokens, so that every sum has the same order for any number of threads.
void embedding_backward(const ExecutionContext& execution, const Embedding& shape, const std::int32_t* token,
                        const void* dy, float* dtable, Into into) {
  if (execution.device == Device::cuda) return cuda::embedding_backward(execution, shape, token, dy, dtable, into);
  if (into == Into::set) std::fill_n(dtable, shape.vocabulary * shape.width, 0.0f);
  with_type(shape.dtype, [&]<class T>(T*) {
    parallel_for(execution.threads, tasks_of(shape.width, kColumns), [&](int, std::int64_t task) {
      const std::int64_t last = std::min(shape.width, (task + 1) * kColumns);
      for (std::int64_t t = 0; t < shape.tokens; ++t) {
        const T* const from = static_cast<const T*>(dy) + t * shape.width;
        float* const to = dtable + token[t] * shape.width;
        for (std::int64_t i = task * kColumns; i < last; ++i) to[i] += widened(from[i]);
      }
    });
  });
}

}  // namespace strobe::ops
