// OpenBLAS computes in fp32; 16-bit operands are widened first, which is exact, and results rounded once.
#include "ops/linear.h"

#include <algorithm>
#include <cstring>

#include "core/fail.h"
#include "device/host/allocator.h"
#include "device/host/blas.h"
#include "device/host/thread_pool.h"
#include "ops/cpu/element.h"
#include "ops/cpu/sum.h"
#include "ops/cuda/launch.h"

namespace strobe::ops {

namespace {

constexpr const char* kTag = "product workspace";
constexpr std::int64_t kElements = 16384;            // of a task of conversions
constexpr std::int64_t kMostSize = (1ll << 31) - 1;  // of what OpenBLAS counts in

std::size_t bytes_of(std::int64_t count, DType dtype) { return static_cast<std::size_t>(count) * size_of(dtype); }

// The operand as fp32: in place, or widened.
class Widened {
 public:
  Widened(const Place& place, DType dtype, const void* data, std::int64_t count)
      : buffer_(dtype == DType::fp32 ? 0 : static_cast<std::size_t>(count) * sizeof(float), kTag),
        data_(dtype == DType::fp32 ? static_cast<const float*>(data) : buffer_.as<float>()) {
    if (dtype == DType::fp32) return;
    with_type(dtype, [&]<class T>(T*) {
      parallel_for(place.threads, tasks_of(count, kElements), [&](int, std::int64_t task) {
        const std::int64_t last = std::min(count, (task + 1) * kElements);
        for (std::int64_t i = task * kElements; i < last; ++i) {
          buffer_.as<float>()[i] = static_cast<float>(widened(static_cast<const T*>(data)[i]));
        }
      });
    });
  }
  const float* data() const { return data_; }

 private:
  Buffer buffer_;
  const float* data_;
};

// c (+)= a b.
void multiply(const Place& place, const blas::Matrix& a, const blas::Matrix& b, float* c, Into into) {
  for (const std::int64_t size : {a.rows, a.cols, b.cols}) {
    if (size > kMostSize) {
      fail(ErrorCode::unsupported, "ops: a matrix product of size {}; OpenBLAS counts in 31 bits", size);
    }
  }
  const blas::BlasThreads one;
  blas::multiply(place.threads, a, b, c, into == Into::sum ? blas::Accumulate::yes : blas::Accumulate::no);
}

// The same with c in the problem's type.
void multiply_to(const Place& place, DType dtype, const blas::Matrix& a, const blas::Matrix& b, void* c, Into into) {
  if (dtype == DType::fp32) return multiply(place, a, b, static_cast<float*>(c), into);
  const std::int64_t count = a.rows * b.cols;
  const Buffer result(static_cast<std::size_t>(count) * sizeof(float), kTag);
  multiply(place, a, b, result.as<float>(), Into::set);
  with_type(dtype, [&]<class T>(T*) {
    parallel_for(place.threads, tasks_of(count, kElements), [&](int, std::int64_t task) {
      T* const to = static_cast<T*>(c);
      for (std::int64_t i = task * kElements; i < std::min(count, (task + 1) * kElements); ++i) {
        const auto value = static_cast<Compute<T>>(result.as<float>()[i]);
        to[i] = narrowed<T>(into == Into::sum ? widened(to[i]) + value : value);
      }
    });
  });
}

}  // namespace

std::size_t linear_workspace_bytes(const Place& place, const Linear& shape) {
  if (place.device == Device::cuda) {
    const bool tf32 = place.tf32 && shape.dtype == DType::fp32;
    return kWorkspaceBytes + (tf32 ? cuda::transposed_bytes(shape.rows, shape.out, shape.in) : 0);
  }
  if (shape.dtype == DType::fp32) return 0;
  return sizeof(float) *
         static_cast<std::size_t>(shape.rows * shape.in + shape.in * shape.out + shape.rows * shape.out);
}

void linear(const Place& place, const Linear& shape, const void* x, const void* weight, void* y, const void* addend) {
  if (place.device == Device::cuda) {
    return cuda::multiply(place, {.a = {x, shape.rows, shape.in},
                                  .b = {weight, shape.out, shape.in, true},
                                  .in = shape.dtype,
                                  .out = shape.dtype,
                                  .addend = addend,
                                  .d = y});
  }
  if (addend && addend != y) std::memcpy(y, addend, bytes_of(shape.rows * shape.out, shape.dtype));
  const Widened a(place, shape.dtype, x, shape.rows * shape.in), b(place, shape.dtype, weight, shape.out * shape.in);
  multiply_to(place, shape.dtype, blas::matrix(a.data(), shape.rows, shape.in),
              blas::transposed(blas::matrix(b.data(), shape.out, shape.in)), y, addend ? Into::sum : Into::set);
}

void linear_backward_input(const Place& place, const Linear& shape, const void* dy, const void* weight, void* dx,
                           Into into) {
  if (place.device == Device::cuda) {
    return cuda::multiply(place, {.a = {dy, shape.rows, shape.out},
                                  .b = {weight, shape.out, shape.in},
                                  .in = shape.dtype,
                                  .out = shape.dtype,
                                  .addend = into == Into::sum ? dx : nullptr,
                                  .d = dx});
  }
  const Widened a(place, shape.dtype, dy, shape.rows * shape.out), b(place, shape.dtype, weight, shape.out * shape.in);
  multiply_to(place, shape.dtype, blas::matrix(a.data(), shape.rows, shape.out),
              blas::matrix(b.data(), shape.out, shape.in), dx, into);
}

void linear_backward_weight(const Place& place, const Linear& shape, const void* dy, const void* x, float* dweight,
                            Into into) {
  if (place.device == Device::cuda) {
    return cuda::multiply(place, {.a = {dy, shape.rows, shape.out, true},
                                  .b = {x, shape.rows, shape.in},
                                  .in = shape.dtype,
                                  .out = DType::fp32,
                                  .addend = into == Into::sum ? dweight : nullptr,
                                  .d = dweight});
  }
  const Widened a(place, shape.dtype, dy, shape.rows * shape.out), b(place, shape.dtype, x, shape.rows * shape.in);
  multiply(place, blas::transposed(blas::matrix(a.data(), shape.rows, shape.out)),
           blas::matrix(b.data(), shape.rows, shape.in), dweight, into);
}

}  // namespace strobe::ops
