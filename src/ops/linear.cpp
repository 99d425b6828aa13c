// OpenBLAS computes in fp32; 16-bit operands are widened first, which is exact, and results rounded once.
#include "ops/linear.h"

#include <cblas.h>

#include <algorithm>

#include "core/fail.h"
#include "device/host/allocator.h"
#include "device/host/thread_pool.h"
#include "ops/cpu/element.h"
#include "ops/cpu/sum.h"

namespace strobe::ops {

namespace {

constexpr std::int64_t kElements = 16384;            // of a task of conversions
constexpr std::int64_t kMostSize = (1ll << 31) - 1;  // of what OpenBLAS counts in

// The operand as fp32: in place, or widened.
class Widened {
 public:
  Widened(const Place& place, DType dtype, const void* data, std::int64_t count)
      : buffer_(dtype == DType::fp32 ? 0 : static_cast<std::size_t>(count) * sizeof(float)),
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

struct Sizes {
  std::int64_t rows, columns, depth;
};

enum class Stored { plain, transposed };

// c [rows, columns] = a b (+ c).
void multiply(const Sizes& sizes, const float* a, Stored a_stored, const float* b, Stored b_stored, float* c,
              Into into) {
  for (const std::int64_t size : {sizes.rows, sizes.columns, sizes.depth}) {
    if (size > kMostSize)
      fail(ErrorCode::unsupported, "ops: a matrix product of size {}; OpenBLAS counts in 31 bits", size);
  }
  const auto m = static_cast<blasint>(sizes.rows), n = static_cast<blasint>(sizes.columns),
             k = static_cast<blasint>(sizes.depth);
  cblas_sgemm(CblasRowMajor, a_stored == Stored::plain ? CblasNoTrans : CblasTrans,
              b_stored == Stored::plain ? CblasNoTrans : CblasTrans, m, n, k, 1, a, a_stored == Stored::plain ? k : m,
              b, b_stored == Stored::plain ? n : k, into == Into::sum ? 1 : 0, c, n);
}

// The same with c in the problem's type.
void multiply_to(const Place& place, DType dtype, const Sizes& sizes, const float* a, Stored a_stored, const float* b,
                 Stored b_stored, void* c, Into into) {
  if (dtype == DType::fp32) return multiply(sizes, a, a_stored, b, b_stored, static_cast<float*>(c), into);
  const std::int64_t count = sizes.rows * sizes.columns;
  const Buffer result(static_cast<std::size_t>(count) * sizeof(float));
  multiply(sizes, a, a_stored, b, b_stored, result.as<float>(), Into::set);
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

void linear(const Place& place, const Linear& shape, const void* x, const void* weight, void* y, Into into) {
  expect_cpu(place, "a matrix product");
  const Widened a(place, shape.dtype, x, shape.rows * shape.in), b(place, shape.dtype, weight, shape.out * shape.in);
  multiply_to(place, shape.dtype, {shape.rows, shape.out, shape.in}, a.data(), Stored::plain, b.data(),
              Stored::transposed, y, into);
}

void linear_backward_input(const Place& place, const Linear& shape, const void* dy, const void* weight, void* dx,
                           Into into) {
  expect_cpu(place, "a matrix product");
  const Widened a(place, shape.dtype, dy, shape.rows * shape.out), b(place, shape.dtype, weight, shape.out * shape.in);
  multiply_to(place, shape.dtype, {shape.rows, shape.in, shape.out}, a.data(), Stored::plain, b.data(), Stored::plain,
              dx, into);
}

void linear_backward_weight(const Place& place, const Linear& shape, const void* dy, const void* x, float* dweight) {
  expect_cpu(place, "a matrix product");
  const Widened a(place, shape.dtype, dy, shape.rows * shape.out), b(place, shape.dtype, x, shape.rows * shape.in);
  multiply({shape.out, shape.in, shape.rows}, a.data(), Stored::transposed, b.data(), Stored::plain, dweight,
           Into::sum);
}

}  // namespace strobe::ops
