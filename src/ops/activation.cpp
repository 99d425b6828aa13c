// Implements activation.h on the CPU, and calls cuda/ for tensors on a GPU.
#include "ops/activation.h"

#include "ops/cpu/each_row.h"
#include "ops/cpu/isa.h"
#include "ops/cuda/launch.h"

namespace strobe::ops {

void gelu(const ExecutionContext& execution, const Gelu& shape, const void* x, void* y) {
  if (execution.device == Device::cuda) return cuda::gelu(execution, shape, x, y);
  const Isa& isa = chosen_isa();
  with_type(shape.dtype, [&]<class T>(T*) {
    each_row(execution.threads, shape.rows, shape.width, [&](std::int64_t row) {
      const std::int64_t at = row * shape.width;
      isa.of<T>().gelu(static_cast<const T*>(x) + at, static_cast<T*>(y) + at, shape.width);
    });
  });
}

void gelu_backward(const ExecutionContext& execution, const Gelu& shape, const void* x, const void* dy, void* dx) {
  if (execution.device == Device::cuda) return cuda::gelu_backward(execution, shape, x, dy, dx);
  const Isa& isa = chosen_isa();
  with_type(shape.dtype, [&]<class T>(T*) {
    each_row(execution.threads, shape.rows, shape.width, [&](std::int64_t row) {
      const std::int64_t at = row * shape.width;
      isa.of<T>().gelu_backward(static_cast<const T*>(x) + at, static_cast<const T*>(dy) + at, static_cast<T*>(dx) + at,
                                shape.width);
    });
  });
}

// --- SwiGLU ----------------------------------------------------------------------------------------------------------

void swiglu(const ExecutionContext& execution, const Swiglu& shape, const void* ab, void* y) {
  if (execution.device == Device::cuda) return cuda::swiglu(execution, shape, ab, y);
  const Isa& isa = chosen_isa();
  with_type(shape.dtype, [&]<class T>(T*) {
    each_row(execution.threads, shape.rows, shape.width, [&](std::int64_t row) {
      const T* const a = static_cast<const T*>(ab) + row * 2 * shape.width;
      isa.of<T>().swiglu(a, a + shape.width, static_cast<T*>(y) + row * shape.width, shape.width);
    });
  });
}

void swiglu_backward(const ExecutionContext& execution, const Swiglu& shape, const void* ab, const void* dy,
                     void* dab) {
  if (execution.device == Device::cuda) return cuda::swiglu_backward(execution, shape, ab, dy, dab);
  const Isa& isa = chosen_isa();
  with_type(shape.dtype, [&]<class T>(T*) {
    each_row(execution.threads, shape.rows, shape.width, [&](std::int64_t row) {
      const T* const a = static_cast<const T*>(ab) + row * 2 * shape.width;
      T* const da = static_cast<T*>(dab) + row * 2 * shape.width;
      isa.of<T>().swiglu_backward(a, a + shape.width, static_cast<const T*>(dy) + row * shape.width, da,
                                  da + shape.width, shape.width);
    });
  });
}

}  // namespace strobe::ops
