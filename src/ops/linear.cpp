// Implements linear.h on the CPU, and calls cuda/ for tensors on a GPU. CPU matmuls compute in fp32: 16-bit operands
// are converted, which is exact, and results are rounded once.
#include "ops/linear.h"

#include <algorithm>
#include <cstring>

#include "device/host/allocator.h"
#include "device/host/thread_pool.h"
#include "ops/cpu/each_row.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/matmul.h"
#include "ops/cpu/sum.h"
#include "ops/cuda/launch.h"

namespace strobe::ops {

namespace {

constexpr const char* kTag = "matmul workspace";
constexpr std::int64_t kElements = 16384;  // elements per conversion task

std::size_t bytes_of(std::int64_t count, DType dtype) { return static_cast<std::size_t>(count) * size_of(dtype); }

// An operand as fp32: in place if it is fp32, else a converted copy.
class Widened {
 public:
  Widened(const ExecutionContext& execution, DType dtype, const void* data, std::int64_t count)
      : buffer_(dtype == DType::fp32 ? 0 : static_cast<std::size_t>(count) * sizeof(float), kTag),
        data_(dtype == DType::fp32 ? static_cast<const float*>(data) : buffer_.as<float>()) {
    if (dtype == DType::fp32) return;
    const Isa& isa = chosen_isa();
    with_type(dtype, [&]<class T>(T*) {
      parallel_for(execution.threads, tasks_of(count, kElements), [&](int, std::int64_t task) {
        const std::int64_t first = task * kElements;
        isa.of<T>().widen(static_cast<const T*>(data) + first, buffer_.as<float>() + first,
                          std::min(kElements, count - first));
      });
    });
  }
  const float* data() const { return data_; }

 private:
  Buffer buffer_;
  const float* data_;
};

// Adds the bias to every row of c [rows, columns].
void add_bias(const ExecutionContext& execution, DType dtype, const void* bias, std::int64_t rows, std::int64_t columns,
              float* c) {
  const Isa& isa = chosen_isa();
  with_type(dtype, [&]<class T>(T*) {
    each_row(execution.threads, rows, columns,
             [&](std::int64_t row) { isa.of<T>().add(static_cast<const T*>(bias), c + row * columns, columns); });
  });
}

// Computes c = a b + addend + bias in fp32. a and b are fp32; addend, bias and c have the given type.
void matmul_to(const ExecutionContext& execution, DType dtype, const blas::Matrix& a, const blas::Matrix& b,
               const Added& added, void* c) {
  const void* const addend = added.addend;
  if (dtype == DType::fp32) {
    auto* const out = static_cast<float*>(c);
    cpu_matmul(execution.threads, a, b, static_cast<const float*>(addend), out);
    if (added.bias) add_bias(execution, dtype, added.bias, a.rows, b.cols, out);
    return;
  }
  const std::int64_t count = a.rows * b.cols;
  const Buffer result(static_cast<std::size_t>(count) * sizeof(float), kTag);
  cpu_matmul(execution.threads, a, b, nullptr, result.as<float>());
  if (added.bias) add_bias(execution, dtype, added.bias, a.rows, b.cols, result.as<float>());
  if (addend && addend != c) std::memcpy(c, addend, bytes_of(count, dtype));
  const Isa& isa = chosen_isa();
  with_type(dtype, [&]<class T>(T*) {
    parallel_for(execution.threads, tasks_of(count, kElements), [&](int, std::int64_t task) {
      const std::int64_t first = task * kElements;
      isa.of<T>().narrow(result.as<float>() + first, static_cast<T*>(c) + first, addend ? Into::sum : Into::set,
                         std::min(kElements, count - first));
    });
  });
}

// Returns the bytes of fp32 copies of both operands and the result.
std::size_t bytes_as_fp32(const Linear& shape) {
  return sizeof(float) *
         static_cast<std::size_t>(shape.rows * shape.in + shape.in * shape.out + shape.rows * shape.out);
}

}  // namespace

std::size_t linear_workspace_bytes(const ExecutionContext& execution, const Linear& shape) {
  if (execution.device == Device::cuda) return kWorkspaceBytes;
  return shape.dtype == DType::fp32 ? 0 : bytes_as_fp32(shape);
}

std::size_t linear_backward_workspace_bytes(const ExecutionContext& execution, const Linear& shape) {
  const bool is_fp32 = shape.dtype == DType::fp32;
  if (execution.device == Device::cuda) {
    const bool transposes = execution.tf32 && is_fp32;
    return kWorkspaceBytes + (transposes ? cuda::transposed_bytes(shape.rows, shape.out, shape.in) : 0);
  }
  return is_fp32 ? 0 : bytes_as_fp32(shape);
}

void linear(const ExecutionContext& execution, const Linear& shape, const void* x, const void* weight, void* y,
            const Added& added) {
  if (execution.device == Device::cuda) {
    return cuda::gemm(execution, {.a = {x, shape.rows, shape.in},
                                  .b = {weight, shape.out, shape.in, true},
                                  .in = shape.dtype,
                                  .out = shape.dtype,
                                  .addend = added.addend,
                                  .bias = added.bias,
                                  .d = y});
  }
  const Widened a(execution, shape.dtype, x, shape.rows * shape.in),
      b(execution, shape.dtype, weight, shape.out * shape.in);
  matmul_to(execution, shape.dtype, blas::matrix(a.data(), shape.rows, shape.in),
            blas::transposed(blas::matrix(b.data(), shape.out, shape.in)), added, y);
}

void linear_backward_input(const ExecutionContext& execution, const Linear& shape, const void* dy, const void* weight,
                           void* dx, Into into) {
  if (execution.device == Device::cuda) {
    return cuda::gemm(execution, {.a = {dy, shape.rows, shape.out},
                                  .b = {weight, shape.out, shape.in},
                                  .in = shape.dtype,
                                  .out = shape.dtype,
                                  .addend = into == Into::sum ? dx : nullptr,
                                  .d = dx});
  }
  const Widened a(execution, shape.dtype, dy, shape.rows * shape.out),
      b(execution, shape.dtype, weight, shape.out * shape.in);
  matmul_to(execution, shape.dtype, blas::matrix(a.data(), shape.rows, shape.out),
            blas::matrix(b.data(), shape.out, shape.in), {.addend = into == Into::sum ? dx : nullptr}, dx);
}

void linear_backward_weight(const ExecutionContext& execution, const Linear& shape, const void* dy, const void* x,
                            float* dweight, Into into) {
  if (execution.device == Device::cuda) {
    return cuda::gemm(execution, {.a = {dy, shape.rows, shape.out, true},
                                  .b = {x, shape.rows, shape.in},
                                  .in = shape.dtype,
                                  .out = DType::fp32,
                                  .addend = into == Into::sum ? dweight : nullptr,
                                  .d = dweight});
  }
  const Widened a(execution, shape.dtype, dy, shape.rows * shape.out),
      b(execution, shape.dtype, x, shape.rows * shape.in);
  cpu_matmul(execution.threads, blas::transposed(blas::matrix(a.data(), shape.rows, shape.out)),
             blas::matrix(b.data(), shape.rows, shape.in), into == Into::sum ? dweight : nullptr, dweight);
}

// Tasks split the columns, so each sum adds its rows in order and does not depend on the number of threads.
void column_sums(const ExecutionContext& execution, const ColumnSums& shape, const void* x, float* sums, Into into) {
  if (execution.device == Device::cuda) return cuda::column_sums(execution, shape, x, sums, into);
  constexpr std::int64_t kFewestColumns = 64, kElementsOfATask = 8192;
  const std::int64_t share = std::max(kFewestColumns, kElementsOfATask / std::max<std::int64_t>(1, shape.rows));
  const Isa& isa = chosen_isa();
  with_type(shape.dtype, [&]<class T>(T*) {
    parallel_for(execution.threads, tasks_of(shape.columns, share), [&](int, std::int64_t task) {
      const std::int64_t first = task * share, count = std::min(share, shape.columns - first);
      if (into == Into::set) std::fill_n(sums + first, count, 0.0f);
      for (std::int64_t r = 0; r < shape.rows; ++r) {
        isa.of<T>().add(static_cast<const T*>(x) + r * shape.columns + first, sums + first, count);
      }
    });
  });
}

}  // namespace strobe::ops
