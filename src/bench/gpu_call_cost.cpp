// Times calls by the host's clock. The GPU finishes each sooner than the next is made or, with the launches of at most
// kCalls in its queue, holds them all, so that no call waits for it.
#include "bench/gpu_call_cost.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "device/gpu_buffer.h"
#include "device/gpu_stream.h"
#include "strobe/attention.h"

namespace strobe::bench {

namespace {

constexpr int kCalls = 10, kTries = 100;

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

CallCost gpu_call_cost() {
  const std::array<std::int64_t, 4> shape{1, 2, 256, 64};
  constexpr std::size_t kBytes = 2 * 256 * 64 * 2;
  const GpuStream stream;
  GpuBuffer tensors[8];
  for (GpuBuffer& tensor : tensors) {
    tensor = GpuBuffer(kBytes);
    tensor.fill(0x3f803f80u, stream);  // ones
  }
  const GpuBuffer lse(2 * 256 * 4);
  const auto in = [&](int i) { return view_bhsd<const void>(tensors[i].data(), DType::bf16, shape); };
  const auto out = [&](int i) { return view_bhsd<void>(tensors[i].data(), DType::bf16, shape); };
  const Attention attention{.q = in(0), .k = in(1), .v = in(2), .causal = true};
  Execution execution{.device = Device::cuda, .deterministic = false, .stream = stream.handle()};
  const GpuBuffer workspace(
      std::max<std::size_t>(256, std::max(workspace_bytes(attention, Pass::forward, execution),
                                          workspace_bytes(attention, Pass::backward, execution))));
  execution.workspace = workspace.data();
  execution.workspace_bytes = workspace.bytes();
  const auto run_forward = [&] { forward(attention, {.o = out(3), .lse = lse.as<float>()}, execution); };
  const auto run_backward = [&] {
    backward(attention, {.o = in(3), .lse = lse.as<float>(), .d_o = in(4)}, {.dq = out(5), .dk = out(6), .dv = out(7)},
             execution);
  };
  const auto per_call = [&](const auto& run) {
    double least = 1;
    for (int i = 0; i < kTries; ++i) {
      stream.synchronize();
      least = std::min(least, seconds_of([&] {
                         for (int call = 0; call < kCalls; ++call) run();
                       }));
    }
    return least / kCalls;
  };
  stream.synchronize();
  CallCost cost;
  cost.first = seconds_of(run_forward);
  run_backward();
  cost.forward = per_call(run_forward);
  cost.backward = per_call(run_backward);
  stream.synchronize();
  return cost;
}

}  // namespace strobe::bench
