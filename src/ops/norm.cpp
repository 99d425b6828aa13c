// Implements norm.h on the CPU, and calls cuda/ for tensors on a GPU.
#include "ops/norm.h"

#include <algorithm>

#include "device/host/thread_pool.h"
#include "ops/cpu/each_row.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/sum.h"
#include "ops/cuda/launch.h"

namespace strobe::ops {

namespace {

constexpr std::int64_t kColumns = 64;  // columns per task of the weight gradient

}  // namespace

void rms_norm(const ExecutionContext& execution, const RmsNorm& norm, const void* x, const float* weight, void* y,
              float* inverse) {
  if (execution.device == Device::cuda) return cuda::rms_norm(execution, norm, x, weight, y, inverse);
  const Isa& isa = chosen_isa();
  with_type(norm.dtype, [&]<class T>(T*) {
    each_row(execution.threads, norm.rows, norm.width, [&](std::int64_t r) {
      const std::int64_t at = r * norm.width;
      inverse[r] =
          isa.of<T>().rms_norm(static_cast<const T*>(x) + at, weight, static_cast<T*>(y) + at, norm.width, norm.eps);
    });
  });
}

void rms_norm_backward(const ExecutionContext& execution, const RmsNorm& norm, const RmsNormGradients& t) {
  if (execution.device == Device::cuda) return cuda::rms_norm_backward(execution, norm, t);
  const Isa& isa = chosen_isa();
  with_type(norm.dtype, [&]<class T>(T*) {
    const auto* const x = static_cast<const T*>(t.x);
    const auto* const dy = static_cast<const T*>(t.dy);
    parallel_for(execution.threads, tasks_of(norm.width, kColumns), [&](int, std::int64_t task) {
      const std::int64_t first = task * kColumns, last = std::min(norm.width, first + kColumns);
      if (t.dweight_into == Into::set) std::fill(t.dweight + first, t.dweight + last, 0.0f);
      isa.of<T>().rms_norm_weight_backward(x, t.inverse, dy, t.dweight, norm.rows, norm.width, first, last);
    });
    each_row(execution.threads, norm.rows, norm.width, [&](std::int64_t r) {
      const std::int64_t at = r * norm.width;
      isa.of<T>().rms_norm_backward(x + at, t.weight, t.inverse[r], dy + at, static_cast<T*>(t.dx) + at, t.dx_into,
                                    norm.width);
    });
  });
}

// --- LayerNorm -------------------------------------------------------------------------------------------------------

void layer_norm(const ExecutionContext& execution, const LayerNorm& norm, const LayerNormTensors& t) {
  if (execution.device == Device::cuda) return cuda::layer_norm(execution, norm, t);
  const Isa& isa = chosen_isa();
  with_type(norm.dtype, [&]<class T>(T*) {
    each_row(execution.threads, norm.rows, norm.width, [&](std::int64_t r) {
      const std::int64_t at = r * norm.width;
      isa.of<T>().layer_norm(static_cast<const T*>(t.x) + at, t.weight, t.bias, static_cast<T*>(t.y) + at,
                             t.statistics + 2 * r, norm.width, norm.eps);
    });
  });
}

// For parameter gradients, tasks divide the columns instead of the rows, so that every sum has a fixed order.
void layer_norm_backward(const ExecutionContext& execution, const LayerNorm& norm, const LayerNormGradients& t) {
  if (execution.device == Device::cuda) return cuda::layer_norm_backward(execution, norm, t);
  constexpr std::int64_t kColumnsOfATask = 64;
  const Isa& isa = chosen_isa();
  with_type(norm.dtype, [&]<class T>(T*) {
    const auto* const x = static_cast<const T*>(t.x);
    const auto* const dy = static_cast<const T*>(t.dy);
    parallel_for(execution.threads, tasks_of(norm.width, kColumnsOfATask), [&](int, std::int64_t task) {
      const std::int64_t first = task * kColumnsOfATask, last = std::min(norm.width, first + kColumnsOfATask);
      for (float* const sums : {t.dweight, t.dbias}) {
        if (t.parameters_into == Into::set) std::fill(sums + first, sums + last, 0.0f);
      }
      for (std::int64_t r = 0; r < norm.rows; ++r) {
        const std::int64_t at = r * norm.width + first;
        isa.of<T>().layer_norm_parameters_backward(x + at, t.statistics + 2 * r, dy + at, t.dweight + first,
                                                   t.dbias + first, last - first);
      }
    });
    each_row(execution.threads, norm.rows, norm.width, [&](std::int64_t r) {
      const std::int64_t at = r * norm.width;
      isa.of<T>().layer_norm_backward(x + at, t.weight, t.statistics + 2 * r, dy + at, static_cast<T*>(t.dx) + at,
                                      t.dx_into, norm.width);
    });
  });
}

}  // namespace strobe::ops
