// Times every candidate kernel at every length, full and causal; candidates alternate, and the L2 cache is cold. Prints
// one JSON line per measurement for tools/tune-hopper. The dtype is bf16, batch * length is 16384, and heads * D (the
// head dimension) is about 2048, as in sweeps/paper.grid.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/forward/launch.h"
#include "attention/validate.h"
#include "core/half.h"
#include "device/gpu_buffer.h"
#include "device/gpu_stream.h"
#include "strobe/attention.h"
#include "tune_hopper/candidate.h"

namespace strobe::tune {
namespace {

using namespace cuda::sm90;

constexpr std::int64_t kTokens = 16384, kHidden = 2048;
constexpr int kRounds = 15;
constexpr std::size_t kFlushBytes = 256 << 20;  // several times the size of the L2 cache
constexpr double kMostApart = 0.05;  // maximum difference from flash2's result, in units of 1 / sqrt(keys per row)

// Returns `count` normally distributed bf16 values.
GpuBuffer random_tensor(std::size_t count, unsigned seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> values(1'000'003);  // prime, so that no two rows, heads or batches are equal
  for (std::uint16_t& value : values) value = float_to_bf16(normal(rng));
  GpuBuffer buffer(count * 2);
  const GpuStream stream;
  for (std::size_t at = 0; at < count; at += values.size()) {
    stream.copy(buffer.as<std::uint16_t>() + at, values.data(), std::min(values.size(), count - at) * 2);
  }
  stream.synchronize();
  return buffer;
}

struct Cell {
  HeadDims dims;
  std::int64_t length;
  bool causal;

  std::int64_t batch() const { return kTokens / length; }
  std::int64_t heads() const { return std::max<std::int64_t>(1, kHidden / dims.d); }
  double operations() const {
    return 2.0 * static_cast<double>(batch() * heads() * length) * static_cast<double>(length) * (dims.d + dims.dv) /
           (causal ? 2 : 1);
  }
};

class Bench {
 public:
  explicit Bench(const Cell& cell)
      : cell_(cell),
        q_(random_tensor(elements(cell.dims.d), 1)),
        k_(random_tensor(elements(cell.dims.d), 2)),
        v_(random_tensor(elements(cell.dims.dv), 3)),
        o_(elements(cell.dims.dv) * 2),
        expected_(elements(cell.dims.dv)),
        workspace_(std::size_t{64} << 20),
        flush_(kFlushBytes) {
    execution_.device = Device::cuda;
    execution_.stream = stream_.handle();
    execution_.workspace = workspace_.data();
    execution_.workspace_bytes = workspace_.bytes();
    execution_.kernel = "flash2";
    forward(attention(), {.o = output()}, execution_);
    expected_ = result();
    execution_.kernel = "hopper";
    problem_ = validate_forward(attention(), {.o = output()}, execution_);
  }

  bool agrees(const Candidate& candidate) {
    o_.fill(0xffffffffu, stream_);
    run(candidate);
    const std::vector<std::uint16_t> found = result();
    const auto row_elements = static_cast<std::size_t>(cell_.heads() * cell_.dims.dv);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i / row_elements) % cell_.length;
      const double size = 1 / std::sqrt(static_cast<double>(cell_.causal ? row + 1 : cell_.length));
      const double apart = std::abs(bf16_to_float(found[i]) - bf16_to_float(expected_[i]));
      if (!(apart <= kMostApart * size + 0x1p-7 * std::abs(bf16_to_float(expected_[i])))) return false;
    }
    return true;
  }

  double seconds(const Candidate& candidate) {
    flush_.fill(0, stream_);
    GpuEvent before, after;
    before.record(stream_);
    run(candidate);
    after.record(stream_);
    after.synchronize();
    return after.seconds_since(before);
  }

 private:
  std::size_t elements(int d) const { return static_cast<std::size_t>(kTokens * cell_.heads() * d); }

  std::array<std::int64_t, 4> shape(int d) const { return {cell_.batch(), cell_.heads(), cell_.length, d}; }
  BasicView<void> output() const { return view_bshd<void>(o_.data(), DType::bf16, shape(cell_.dims.dv)); }
  Attention attention() const {
    const auto view = [&](const GpuBuffer& tensor, int d) {
      return view_bshd<const void>(tensor.data(), DType::bf16, shape(d));
    };
    return {
        .q = view(q_, cell_.dims.d), .k = view(k_, cell_.dims.d), .v = view(v_, cell_.dims.dv), .causal = cell_.causal};
  }

  void run(const Candidate& candidate) {
    ForwardLaunch launch;
    launch.config = {candidate.dims, candidate.shape, forward_shared_bytes(candidate.dims, candidate.shape), 1};
    launch.uneven = cell_.causal;
    launch.multiprocessors = problem_.gpu.multiprocessors;
    launch.stream = stream_.handle();
    const ForwardArgs args = begin_forward(launch, cuda::params_of(problem_), workspace_.data());
    const std::int64_t tiles = std::int64_t{args.scheduler.units} * args.scheduler.tiles;
    candidate.start(args, static_cast<int>(std::min<std::int64_t>(tiles, launch.multiprocessors)), stream_.handle());
  }

  std::vector<std::uint16_t> result() const {
    std::vector<std::uint16_t> values(elements(cell_.dims.dv));
    stream_.copy(values.data(), o_.data(), values.size() * 2);
    stream_.synchronize();
    return values;
  }

  Cell cell_;
  GpuStream stream_;
  GpuBuffer q_, k_, v_, o_;
  std::vector<std::uint16_t> expected_;
  GpuBuffer workspace_, flush_;
  Execution execution_;
  Problem problem_;
};

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

void measure(const Cell& cell) {
  Bench bench(cell);
  std::vector<const Candidate*> chosen;
  for (const Candidate& candidate : candidates()) {
    if (candidate.dims == cell.dims) chosen.push_back(&candidate);
  }
  std::vector<bool> right;
  for (const Candidate* candidate : chosen) right.push_back(bench.agrees(*candidate));
  std::vector<std::vector<double>> seconds(chosen.size());
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < chosen.size(); ++i) seconds[i].push_back(bench.seconds(*chosen[i]));
  }
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const ForwardShape& shape = chosen[i]->shape;
    const double time = median(seconds[i]);
    fmt::print(
        "{{\"dims\": [{}, {}], \"length\": {}, \"causal\": {}, \"shape\": [{}, {}, {}, {}, {}], \"right\": {}, "
        "\"ms\": {:.5f}, \"tflops\": {:.1f}}}\n",
        cell.dims.d, cell.dims.dv, cell.length, cell.causal, shape.consumers, shape.keys, shape.stages, shape.q_stages,
        shape.passes, static_cast<bool>(right[i]), time * 1e3, cell.operations() / time * 1e-12);
  }
  std::fflush(stdout);
}

void measure_all() {
  for (const HeadDims dims : kForwardDims) {
    for (std::int64_t length = 512; length <= kTokens; length *= 2) {
      for (const bool causal : {false, true}) measure({dims, length, causal});
    }
  }
}

}  // namespace
}  // namespace strobe::tune

int main() {
  try {
    strobe::tune::measure_all();
    return 0;
  } catch (const strobe::Error& error) {
    fmt::print(stderr, "tune_hopper: {}\n", error.what());
    return 3;
  }
}
