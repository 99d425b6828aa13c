#include "ops/gelu.h"

#include "ops/cpu/each_row.h"
#include "ops/cpu/isa.h"
#include "ops/cuda/launch.h"

namespace strobe::ops {

void gelu(const Place& place, const Gelu& shape, const void* x, void* y) {
  if (place.device == Device::cuda) return cuda::gelu(place, shape, x, y);
  const Isa& isa = chosen_isa();
  with_type(shape.dtype, [&]<class T>(T*) {
    each_row(place.threads, shape.rows, shape.width, [&](std::int64_t row) {
      const std::int64_t at = row * shape.width;
      isa.of<T>().gelu(static_cast<const T*>(x) + at, static_cast<T*>(y) + at, shape.width);
    });
  });
}

void gelu_backward(const Place& place, const Gelu& shape, const void* x, const void* dy, void* dx) {
  if (place.device == Device::cuda) return cuda::gelu_backward(place, shape, x, dy, dx);
  const Isa& isa = chosen_isa();
  with_type(shape.dtype, [&]<class T>(T*) {
    each_row(place.threads, shape.rows, shape.width, [&](std::int64_t row) {
      const std::int64_t at = row * shape.width;
      isa.of<T>().gelu_backward(static_cast<const T*>(x) + at, static_cast<const T*>(dy) + at, static_cast<T*>(dx) + at,
                                shape.width);
    });
  });
}

}  // namespace strobe::ops
