// Tests sizes at which 32-bit index arithmetic on the GPU would overflow. The expected results follow directly from the
// inputs, or equal those of a small problem.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/half.h"
#include "support/check.h"
#include "support/gpu.h"
#include "support/random.h"

namespace strobe::test {
namespace {

class GpuLarge : public GpuTest {};

GpuBuffer workspace_for(const Attention& attention, Pass pass, Execution& execution) {
  GpuBuffer memory(workspace_bytes(attention, pass, execution));
  execution.workspace = memory.data();
  execution.workspace_bytes = memory.bytes();
  return memory;
}

std::vector<std::uint16_t> downloaded(const GpuBuffer& buffer, std::size_t count) {
  std::vector<std::uint16_t> values(count);
  buffer.copy_to_host(values.data(), count * 2);
  return values;
}

// The single key of each row has probability 1. Therefore O = V and dV = dO bitwise, and dQ and dK are 0 except for
// rounding errors, which may be up to 0.5.
TEST_F(GpuLarge, ManySequencesOfOneRow) {
  constexpr std::int64_t kBatch = 8300, kHeads = 16, kDim = 128;
  constexpr std::size_t kCount = kBatch * kHeads * kDim;
  const Shape shape{kBatch, kHeads, 1, kDim};
  std::vector<std::uint16_t> values[4];
  GpuBuffer inputs[4], outputs[4];  // q, k, v, dO; o, dq, dk, dv
  Random random(5);
  for (int t = 0; t < 4; ++t) {
    values[t].resize(kCount);
    for (auto& value : values[t]) value = float_to_bf16(static_cast<float>(random.between(-64, 64)) / 32);
    inputs[t] = GpuBuffer(kCount * 2);
    inputs[t].copy_from_host(values[t].data(), kCount * 2);
    outputs[t] = GpuBuffer(kCount * 2);
  }
  GpuBuffer lse(kBatch * kHeads * 4);
  const auto in = [&](int t) { return view_bhsd<const void>(inputs[t].data(), DType::bf16, shape); };
  const auto out = [&](int t) { return view_bhsd<void>(outputs[t].data(), DType::bf16, shape); };
  for (const std::string& kernel : gpu_kernels()) {
    SCOPED_TRACE(kernel);
    const Attention attention{.q = in(0), .k = in(1), .v = in(2)};
    if (!gpu_refusal(attention, kernel).empty()) continue;
    for (auto& output : outputs) output.fill(0x7fc07fc0u);
    lse.fill(0x7fc07fc0u);
    Execution execution{.device = Device::cuda, .kernel = kernel};
    const GpuBuffer first = workspace_for(attention, Pass::forward, execution);
    forward(attention, {.o = out(0), .lse = lse.as<float>()}, execution);
    const GpuBuffer second = workspace_for(attention, Pass::backward, execution);
    backward(attention, {.o = out(0), .lse = lse.as<float>(), .d_o = in(3)}, {.dq = out(1), .dk = out(2), .dv = out(3)},
             execution);
    EXPECT_EQ(downloaded(outputs[0], kCount), values[2]) << "O";
    EXPECT_EQ(downloaded(outputs[3], kCount), values[3]) << "dV";
    for (const int gradient : {1, 2}) {
      const auto got = downloaded(outputs[gradient], kCount);
      for (std::size_t i = 0; i < kCount; ++i) ASSERT_LE(std::abs(bf16_to_float(got[i])), 0.5f) << gradient << " " << i;
    }
    std::vector<float> got(kBatch * kHeads);
    lse.copy_to_host(got.data(), got.size() * 4);
    for (std::size_t row = 0; row < got.size(); ++row) {
      double dot = 0;
      for (std::size_t c = 0; c < kDim; ++c) {
        dot += bf16_to_float(values[0][row * kDim + c]) * bf16_to_float(values[1][row * kDim + c]);
      }
      ASSERT_NEAR(got[row], dot / std::sqrt(128.0), 0.1) << row;
    }
  }
}

// Places rows of a small problem at the start, in the middle and at the end of tensors of more than 2^31 elements. All
// other rows have dO = 0, so dK and dV equal those of the small problem.
TEST_F(GpuLarge, MoreThan2To31Elements) {
  constexpr std::int64_t kDim = 128, kRows = (std::int64_t{1} << 24) + 64;
  static_assert(kRows * kDim > std::int64_t{1} << 31);
  constexpr std::size_t kBytes = static_cast<std::size_t>(kRows) * kDim * 2;
  const Case c = case_from("s24x64 d{} bf16 seed=9", kDim);
  const Data small(c);
  const Results reference = oracle(small);
  const std::int64_t places[3] = {0, (std::int64_t{1} << 24) - 4, kRows - 8};
  GpuBuffer q(kBytes), d_o(kBytes), o(kBytes), dq(kBytes), lse(static_cast<std::size_t>(kRows) * 4);
  const std::size_t key_bytes = 64 * kDim * 2;
  GpuBuffer k(key_bytes), v(key_bytes), dk(key_bytes), dv(key_bytes);
  GpuLane lane;
  q.fill(0x3f803f80u, lane.stream);
  d_o.fill(0, lane.stream);
  const std::size_t part = 8 * kDim * 2;
  const auto rows = [&](const Tensor& tensor, int n) { return static_cast<const char*>(tensor.view.data) + n * part; };
  for (int n = 0; n < 3; ++n) {
    const std::size_t at = static_cast<std::size_t>(places[n]) * kDim * 2;
    lane.stream.copy(q.as<char>() + at, rows(small.q, n), part);
    lane.stream.copy(d_o.as<char>() + at, rows(small.d_o, n), part);
  }
  lane.stream.copy(k.data(), small.k.view.data, key_bytes);
  lane.stream.copy(v.data(), small.v.view.data, key_bytes);
  const Shape shape{1, 1, kRows, kDim}, keys{1, 1, 64, kDim};
  const auto in = [](const GpuBuffer& buffer, const Shape& of) {
    return view_bhsd<const void>(buffer.data(), DType::bf16, of);
  };
  const auto out = [](const GpuBuffer& buffer, const Shape& of) { return view_bhsd(buffer.data(), DType::bf16, of); };
  for (const std::string& kernel : gpu_kernels()) {
    for (GpuBuffer* output : {&o, &dq, &lse, &dk, &dv}) output->fill(0x7fc07fc0u, lane.stream);
    const Attention attention{.q = in(q, shape), .k = in(k, keys), .v = in(v, keys)};
    if (!gpu_refusal(attention, kernel).empty()) continue;
    Execution execution{.device = Device::cuda, .kernel = kernel, .stream = lane.stream.handle()};
    {
      const GpuBuffer workspace = workspace_for(attention, Pass::forward, execution);
      forward(attention, {.o = out(o, shape), .lse = lse.as<float>()}, execution);
      lane.stream.synchronize();
    }
    {
      const GpuBuffer workspace = workspace_for(attention, Pass::backward, execution);
      backward(attention, {.o = in(o, shape), .lse = lse.as<float>(), .d_o = in(d_o, shape)},
               {.dq = out(dq, shape), .dk = out(dk, keys), .dv = out(dv, keys)}, execution);
      lane.stream.synchronize();
    }
    Results results;
    const auto add = [&](std::vector<double>& to, const GpuBuffer& buffer, std::int64_t first, std::int64_t count) {
      std::vector<std::uint16_t> values(static_cast<std::size_t>(count * kDim));
      lane.stream.copy(values.data(), buffer.as<char>() + first * kDim * 2, values.size() * 2);
      lane.stream.synchronize();
      for (const std::uint16_t value : values) to.push_back(bf16_to_float(value));
    };
    for (const std::int64_t place : places) {
      add(results.o, o, place, 8);
      add(results.dq, dq, place, 8);
      float part_lse[8];
      lane.stream.copy(part_lse, lse.as<float>() + place, sizeof part_lse);
      lane.stream.synchronize();
      results.lse.insert(results.lse.end(), part_lse, part_lse + 8);
    }
    add(results.dk, dk, 0, 64);
    add(results.dv, dv, 0, 64);
    expect_near(c, reference, results, 16, kernel);
  }
}

// The batch stride of every tensor exceeds 2^31 elements.
TEST_F(GpuLarge, StridesBeyond2To31) {
  constexpr std::int64_t kStride = (std::int64_t{1} << 31) + 64, kDim = 64;
  const Case c = case_from("b2 h2/1 s33x70 d{} fp16 seed=4", kDim);
  const Data small(c);
  const Results reference = oracle(small);
  // Bytes, 2 per element. Sequence 0 of all tensors is at the start, sequence 1 kStride elements later.
  GpuBuffer buffer((kStride + 2 * 70 * kDim * 16) * 2);
  GpuLane lane;
  std::int64_t used = 0;
  const auto place = [&](const Shape& shape) {
    View view = view_bhsd<void>(buffer.as<char>() + used * 2, DType::fp16, shape);
    used += shape[1] * shape[2] * shape[3];
    view.stride[0] = kStride;
    return view;
  };
  const auto upload = [&](const Tensor& tensor) {
    const View view = place(tensor.view.shape);
    // Bytes of one of the two sequences: half of the elements, 2 bytes each.
    const std::size_t half = static_cast<std::size_t>(count_of(tensor.view.shape));
    for (std::size_t b = 0; b < 2; ++b) {
      lane.stream.copy(static_cast<char*>(view.data) + b * kStride * 2,
                       static_cast<const char*>(tensor.view.data) + b * half, half);
    }
    return view;
  };
  const View q = upload(small.q), k = upload(small.k), v = upload(small.v), d_o = upload(small.d_o);
  const View o = place(small.shape_o()), dq = place(small.shape_q()), dk = place(small.shape_k()),
             dv = place(small.shape_v());
  GpuBuffer lse(2 * 2 * 33 * 4);
  for (const std::string& kernel : gpu_kernels()) {
    const Attention attention{.q = q, .k = k, .v = v};
    if (!gpu_refusal(attention, kernel).empty()) continue;
    Execution execution{.device = Device::cuda, .kernel = kernel, .stream = lane.stream.handle()};
    const GpuBuffer first = workspace_for(attention, Pass::forward, execution);
    forward(attention, {.o = o, .lse = lse.as<float>()}, execution);
    const GpuBuffer second = workspace_for(attention, Pass::backward, execution);
    backward(attention, {.o = o, .lse = lse.as<float>(), .d_o = d_o}, {.dq = dq, .dk = dk, .dv = dv}, execution);
    const auto gather = [&](const View& view) {
      std::vector<double> values;
      const auto half = static_cast<std::size_t>(count_of(view.shape) / 2);
      std::vector<std::uint16_t> host(half);
      for (std::int64_t b = 0; b < 2; ++b) {
        lane.stream.copy(host.data(), static_cast<char*>(view.data) + b * kStride * 2, half * 2);
        lane.stream.synchronize();
        for (const std::uint16_t value : host) values.push_back(fp16_to_float(value));
      }
      return values;
    };
    Results results;
    results.o = gather(o), results.dq = gather(dq), results.dk = gather(dk), results.dv = gather(dv);
    std::vector<float> host(lse.bytes() / 4);
    lane.stream.copy(host.data(), lse.data(), lse.bytes());
    lane.stream.synchronize();
    results.lse.assign(host.begin(), host.end());
    expect_near(c, reference, results, 32, kernel);
  }
}

}  // namespace
}  // namespace strobe::test
