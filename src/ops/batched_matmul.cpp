// Implements batched_matmul.h. The CPU computes one head after the other, each on all threads. CUDA runs one strided
// batched matmul per sequence.
#include "ops/batched_matmul.h"

#include "device/host/allocator.h"
#include "ops/cpu/each_row.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/matmul.h"
#include "ops/cuda/launch.h"

namespace strobe::ops {

namespace {

std::int64_t elements_of(const HeadMatrices& matrices) { return matrices.rows * matrices.cols; }

std::size_t operand_floats(DType dtype, const HeadOperand& operand) {
  return dtype == DType::fp32 ? 0 : static_cast<std::size_t>(elements_of(operand.matrices));
}

bool is_in_place(DType dtype, const HeadMatrices& c) { return dtype == DType::fp32 && c.row_stride == c.cols; }

// Returns one head's operand as fp32: in place if it is fp32, else converted in `buffer`.
template <class T>
blas::Matrix operand_of(int threads, const HeadOperand& operand, std::int64_t offset, float* buffer) {
  const HeadMatrices& m = operand.matrices;
  const T* const data = static_cast<const T*>(operand.data) + offset;
  blas::Matrix matrix{buffer, m.rows, m.cols, m.cols};
  if constexpr (std::is_same_v<T, float>) {
    matrix = {data, m.rows, m.cols, m.row_stride};
  } else {
    const Isa& isa = chosen_isa();
    each_row(threads, m.rows, m.cols,
             [&](std::int64_t row) { isa.of<T>().widen(data + row * m.row_stride, buffer + row * m.cols, m.cols); });
  }
  return operand.transposed ? blas::transposed(matrix) : matrix;
}

std::int64_t offset_of(const HeadMatrices& m, std::int64_t b, std::int64_t h) {
  return b * m.batch_stride + h * m.head_stride;
}

template <class T>
void matmul_on_cpu(int threads, const BatchedMatmul& matmul) {
  const HeadMatrices& m = matmul.c_matrices;
  const Isa& isa = chosen_isa();
  const Buffer buffer(batched_matmul_workspace_bytes(matmul), "matmul workspace");
  float* const a_buffer = buffer.as<float>();
  float* const b_buffer = a_buffer + operand_floats(matmul.dtype, matmul.a);
  float* const c_buffer = b_buffer + operand_floats(matmul.dtype, matmul.b);
  for (std::int64_t head = 0; head < matmul.batch * matmul.heads; ++head) {
    const std::int64_t b = head / matmul.heads, h = head % matmul.heads;
    T* const c = static_cast<T*>(matmul.c) + offset_of(m, b, h);
    float* product = c_buffer;
    if constexpr (std::is_same_v<T, float>) {
      if (is_in_place(matmul.dtype, m)) product = c;
    }
    cpu_matmul(threads, operand_of<T>(threads, matmul.a, offset_of(matmul.a.matrices, b, h), a_buffer),
               operand_of<T>(threads, matmul.b, offset_of(matmul.b.matrices, b, h), b_buffer), nullptr, product);
    if (product != c_buffer && matmul.scale == 1) continue;
    each_row(threads, m.rows, m.cols, [&](std::int64_t row) {
      float* const from = product + row * m.cols;
      for (std::int64_t i = 0; i < m.cols; ++i) from[i] *= matmul.scale;
      if (product == c_buffer) isa.of<T>().narrow(from, c + row * m.row_stride, Into::set, m.cols);
    });
  }
}

void matmul_on_cuda(const ExecutionContext& execution, const BatchedMatmul& matmul) {
  const auto factor = [&](const HeadOperand& operand, std::int64_t b) {
    const HeadMatrices& m = operand.matrices;
    const std::int64_t bytes = b * m.batch_stride * static_cast<std::int64_t>(size_of(matmul.dtype));
    return cuda::Factor{.data = static_cast<const char*>(operand.data) + bytes,
                        .rows = m.rows,
                        .cols = m.cols,
                        .transposed = operand.transposed,
                        .row_stride = m.row_stride,
                        .matrix_stride = m.head_stride};
  };
  const HeadMatrices& c = matmul.c_matrices;
  for (std::int64_t b = 0; b < matmul.batch; ++b) {
    const std::int64_t bytes = b * c.batch_stride * static_cast<std::int64_t>(size_of(matmul.dtype));
    cuda::gemm(execution, {.a = factor(matmul.a, b),
                           .b = factor(matmul.b, b),
                           .in = matmul.dtype,
                           .out = matmul.dtype,
                           .d = static_cast<char*>(matmul.c) + bytes,
                           .d_row_stride = c.row_stride,
                           .d_matrix_stride = c.head_stride,
                           .matrices = matmul.heads,
                           .scale = matmul.scale});
  }
}

}  // namespace

void batched_matmul(const ExecutionContext& execution, const BatchedMatmul& matmul) {
  if (execution.device == Device::cuda) return matmul_on_cuda(execution, matmul);
  with_type(matmul.dtype, [&]<class T>(T*) { matmul_on_cpu<T>(execution.threads, matmul); });
}

std::size_t batched_matmul_workspace_bytes(const BatchedMatmul& matmul) {
  const std::size_t result =
      is_in_place(matmul.dtype, matmul.c_matrices) ? 0 : static_cast<std::size_t>(elements_of(matmul.c_matrices));
  return sizeof(float) * (operand_floats(matmul.dtype, matmul.a) + operand_floats(matmul.dtype, matmul.b) + result);
}

}  // namespace strobe::ops
