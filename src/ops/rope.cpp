// Implements rope.h: the table of angles, and RoPE on the CPU. Calls cuda/ for tensors on a GPU.
#include "ops/rope.h"

#include <cmath>

#include "core/fail.h"
#include "ops/cpu/each_row.h"
#include "ops/cpu/isa.h"
#include "ops/cuda/launch.h"

namespace strobe::ops {

std::vector<float> rope_table(std::int64_t context, std::int64_t head_dim, double theta) {
  if (head_dim < 2 || head_dim % 2 != 0) {
    fail(ErrorCode::invalid_argument, "rope: head dimension {}; it must be even and at least 2", head_dim);
  }
  std::vector<float> table(static_cast<std::size_t>(context * head_dim));
  for (std::int64_t position = 0; position < context; ++position) {
    for (std::int64_t i = 0; i < head_dim; i += 2) {
      const double angle =
          static_cast<double>(position) * std::pow(theta, -static_cast<double>(i) / static_cast<double>(head_dim));
      const auto at = static_cast<std::size_t>(position * head_dim + i);
      table[at] = static_cast<float>(std::cos(angle));
      table[at + 1] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

void rope(const ExecutionContext& execution, const Rope& shape, const float* table, void* x, Rotation rotation) {
  if (execution.device == Device::cuda) return cuda::rope(execution, shape, table, x, rotation);
  const std::int64_t stride = shape.stride > 0 ? shape.stride : shape.heads * shape.head_dim;
  const float sign = rotation == Rotation::forward ? 1.0f : -1.0f;
  const Isa& isa = chosen_isa();
  with_type(shape.dtype, [&]<class T>(T*) {
    each_row(execution.threads, shape.tokens, shape.heads * shape.head_dim, [&](std::int64_t token) {
      const std::int64_t position = shape.first_position + token % shape.context;
      for (std::int64_t head = 0; head < shape.heads; ++head) {
        isa.of<T>().rope(static_cast<T*>(x) + token * stride + head * shape.head_dim, table + position * shape.head_dim,
                         shape.head_dim, sign);
      }
    });
  });
}

}  // namespace strobe::ops
