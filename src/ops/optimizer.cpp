// Implements optimizer.h on the CPU, and calls cuda/ for tensors on a GPU.
#include "ops/optimizer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "device/host/thread_pool.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/sum.h"
#include "ops/cuda/launch.h"

namespace strobe::ops {

namespace {

constexpr std::int64_t kElements = 16384;  // elements per task

struct Chunk {
  const Trained* tensor;
  std::int64_t first, last;
};

std::vector<Chunk> chunks_of(std::span<const Trained> tensors) {
  std::vector<Chunk> chunks;
  for (const Trained& tensor : tensors) {
    for (std::int64_t first = 0; first < tensor.count; first += kElements) {
      chunks.push_back({&tensor, first, std::min(tensor.count, first + kElements)});
    }
  }
  return chunks;
}

void store_copy(const Isa& isa, const Trained& tensor, std::int64_t first, std::int64_t last) {
  with_type(tensor.copy_dtype, [&]<class T>(T*) {
    isa.of<T>().narrow(tensor.value + first, static_cast<T*>(tensor.copy) + first, Into::set, last - first);
  });
}

}  // namespace

Update update_of(const AdamW& options) {
  // 1 - beta is computed in float64. From an fp32 beta of 0.999 it would have a relative error of 1e-5.
  const auto step = static_cast<double>(options.step);
  return {.beta1 = static_cast<float>(options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .rest1 = static_cast<float>(1 - options.beta1),
          .rest2 = static_cast<float>(1 - options.beta2),
          .rate = static_cast<float>(options.rate / (1 - std::pow(options.beta1, step))),
          .unbias2 = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, step))),
          .shrink = static_cast<float>(1 - options.rate * options.decay),
          .eps = static_cast<float>(options.eps),
          .gradient_scale = static_cast<float>(options.gradient_scale)};
}

void adamw(const ExecutionContext& execution, const AdamW& options, std::span<const Trained> tensors) {
  const Update update = update_of(options);
  if (execution.device == Device::cpu) return adamw(execution, &update, tensors);
  cuda::write(execution, execution.workspace, &update, sizeof update);
  cuda::adamw(execution, static_cast<const Update*>(execution.workspace), tensors);
}

void adamw(const ExecutionContext& execution, const Update* update, std::span<const Trained> tensors) {
  if (execution.device == Device::cuda) return cuda::adamw(execution, update, tensors);
  if (update->skip != 0) return round_copies(execution, tensors);
  const Isa& isa = chosen_isa();
  for (const Trained& one : tensors) {
    const std::vector<Chunk> chunks = chunks_of({&one, 1});
    parallel_for(execution.threads, static_cast<std::int64_t>(chunks.size()), [&](int, std::int64_t task) {
      const auto [tensor, first, last] = chunks[static_cast<std::size_t>(task)];
      isa.adamw(*update, *tensor, first, last);
      if (tensor->copy) store_copy(isa, *tensor, first, last);
    });
  }
}

void round_copies(const ExecutionContext& execution, std::span<const Trained> tensors) {
  if (execution.device == Device::cuda) return cuda::round_copies(execution, tensors);
  const Isa& isa = chosen_isa();
  const std::vector<Chunk> chunks = chunks_of(tensors);
  parallel_for(execution.threads, static_cast<std::int64_t>(chunks.size()), [&](int, std::int64_t task) {
    const auto [tensor, first, last] = chunks[static_cast<std::size_t>(task)];
    if (tensor->copy) store_copy(isa, *tensor, first, last);
  });
}

double gradient_norm(const ExecutionContext& execution, std::span<const Trained> tensors, double scale) {
  if (execution.device == Device::cuda) {
    Update update;
    cuda::write(execution, execution.workspace, &update, sizeof update);
    cuda::limit_gradients(execution, tensors, static_cast<Update*>(execution.workspace));
    cuda::read(execution, &update, execution.workspace, sizeof update);
    return update.norm * scale;
  }
  const std::vector<Chunk> chunks = chunks_of(tensors);
  std::vector<double> squares(chunks.size());
  parallel_for(execution.threads, static_cast<std::int64_t>(chunks.size()), [&](int, std::int64_t task) {
    const auto [tensor, first, last] = chunks[static_cast<std::size_t>(task)];
    const float* const gradient = tensor->gradient + first;
    squares[static_cast<std::size_t>(task)] =
        sum_of<double>(last - first, [&](std::int64_t i) { return static_cast<double>(gradient[i]) * gradient[i]; });
  });
  double sum = 0;
  for (const double one : squares) sum += one;
  return std::sqrt(sum) * scale;
}

void limit_gradients(const ExecutionContext& execution, std::span<const Trained> tensors, Update* update) {
  if (execution.device == Device::cuda) return cuda::limit_gradients(execution, tensors, update);
  apply_norm(*update, gradient_norm(execution, tensors, update->gradient_scale));
}

}  // namespace strobe::ops
