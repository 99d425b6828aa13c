// Implements gpu_matmul_rate.h: times one large cuBLAS matmul with CUDA events.
#include "attention/standard/gpu_matmul_rate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "attention/standard/cuda/matmul.h"
#include "core/half.h"
#include "core/philox.h"
#include "device/gpu_buffer.h"
#include "device/gpu_facts.h"
#include "device/gpu_stream.h"

namespace strobe {

namespace {

// Fills a buffer with random normal numbers, which repeat after one million. With zeros or a constant, the GPU would
// draw less power and run faster than with real data.
void fill_normal(const GpuBuffer& buffer, DType dtype, const GpuStream& stream) {
  constexpr std::int64_t kNumbers = 1 << 20;
  std::vector<char> part(kNumbers * size_of(dtype));
  for (std::int64_t i = 0; i < kNumbers; ++i) {
    const auto words = philox({static_cast<std::uint32_t>(i), 0, 0, 0}, 7);
    const float radius = std::sqrt(-2 * std::log((static_cast<float>(words[0] >> 8) + 0.5f) * 0x1p-24f));
    const float angle = 2 * std::numbers::pi_v<float> * static_cast<float>(words[1] >> 8) * 0x1p-24f;
    store_element(part.data(), dtype, i, radius * std::cos(angle));
  }
  for (std::size_t at = 0; at < buffer.bytes(); at += part.size()) {
    stream.copy(buffer.as<char>() + at, part.data(), std::min(part.size(), buffer.bytes() - at));
  }
  stream.synchronize();
}

// Returns the rate of an n x n x n matmul in FLOP/s.
double matmul_rate(DType dtype, std::int64_t n, standard::Fp32Math math) {
  const std::size_t bytes = static_cast<std::size_t>(n * n) * size_of(dtype);
  const GpuStream stream;
  const GpuBuffer a(bytes), b(bytes), c(bytes);
  fill_normal(a, dtype, stream);
  fill_normal(b, dtype, stream);
  const GpuBuffer workspace(standard::Cublas::workspace_bytes(current_gpu().facts.compute_capability));
  const standard::Cublas cublas(dtype, stream.handle(), workspace.data(), workspace.bytes(), math);
  const auto matrix = [&](const GpuBuffer& buffer) { return standard::Matrices{buffer.data(), 0, 0, 0, n}; };
  const standard::Matmul matmul{.rows = n,
                                .cols = n,
                                .inner = n,
                                .a = matrix(a),
                                .a_stored = standard::Operand::plain,
                                .b = matrix(b),
                                .b_stored = standard::Operand::transposed,
                                .c = matrix(c),
                                .batch = 1,
                                .heads = 1,
                                .members = 1};
  GpuEvent begin, end;
  double best = 0;
  for (int run = 0; run < 11; ++run) {  // the first run is a warm-up
    begin.record(stream);
    cublas.gemm(matmul);
    end.record(stream);
    end.synchronize();
    const double size = static_cast<double>(n);
    if (run > 0) best = std::max(best, 2 * size * size * size / end.seconds_since(begin));
  }
  return best;
}

}  // namespace

double gpu_matmul_rate(DType dtype) {
  return matmul_rate(dtype, dtype == DType::fp32 ? 4096 : 8192, standard::Fp32Math::exact);
}

double gpu_tf32_matmul_rate() { return matmul_rate(DType::fp32, 8192, standard::Fp32Math::tf32); }

}  // namespace strobe
