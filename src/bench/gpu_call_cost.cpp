// Times calls by the host's clock. The GPU finishes each call before the next one is made or queues all of them (at
// most kCalls launches), so that no call waits for it.
#include "bench/gpu_call_cost.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <vector>

#include "core/statistics.h"
#include "device/gpu_buffer.h"
#include "device/gpu_stream.h"
#include "strobe/attention.h"

namespace strobe::bench {

namespace {

constexpr int kCalls = 10, kTries = 1000;

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A causal problem of one sequence on the GPU, with workspace.
class Calls {
 public:
  Calls(DType dtype, std::int64_t heads, std::int64_t length) : dtype_(dtype), shape_{1, heads, length, 64} {
    for (GpuBuffer& tensor : tensors_) {
      tensor = GpuBuffer(static_cast<std::size_t>(heads * length) * 64 * 2);
      tensor.fill(0x3f803f80u, stream_);  // 1.0 in bf16, almost 2 in fp16
    }
    lse_ = GpuBuffer(static_cast<std::size_t>(heads * length) * sizeof(float));
    workspace_ =
        GpuBuffer(std::max<std::size_t>(256, std::max(workspace_bytes(attention(), Pass::forward, execution()),
                                                      workspace_bytes(attention(), Pass::backward, execution()))));
    stream_.synchronize();
  }

  void forward() { strobe::forward(attention(), {.o = out(3), .lse = lse_.as<float>()}, execution()); }
  void backward() {
    strobe::backward(attention(), {.o = in(3), .lse = lse_.as<float>(), .d_o = in(4)},
                     {.dq = out(5), .dk = out(6), .dv = out(7)}, execution());
  }

  CallTime cost(void (Calls::*run)()) {
    (this->*run)();
    std::vector<double> seconds(kTries);
    for (double& each : seconds) {
      stream_.synchronize();
      each = seconds_of([&] {
        for (int call = 0; call < kCalls; ++call) (this->*run)();
      });
      each /= kCalls;
    }
    stream_.synchronize();
    const Summary found = summarize(seconds);
    return {found.min, found.median};
  }

 private:
  ConstView in(int i) const { return view_bhsd<const void>(tensors_[i].data(), dtype_, shape_); }
  View out(int i) { return view_bhsd<void>(tensors_[i].data(), dtype_, shape_); }
  Attention attention() const { return {.q = in(0), .k = in(1), .v = in(2), .causal = true}; }
  Execution execution() {
    return {.device = Device::cuda,
            .deterministic = false,
            .stream = stream_.handle(),
            .workspace = workspace_.data(),
            .workspace_bytes = workspace_.bytes()};
  }

  DType dtype_;
  std::array<std::int64_t, 4> shape_;
  GpuStream stream_;
  GpuBuffer tensors_[8], lse_, workspace_;
};

}  // namespace

CallCost gpu_call_cost() {
  // Kernels of both types are in one CUDA module.
  Calls loader(DType::fp16, 2, 256), small(DType::bf16, 2, 256), large(DType::bf16, 512, 512);
  CallCost cost;
  cost.first = seconds_of([&] { loader.forward(); });
  cost.first_loaded = seconds_of([&] { small.forward(); });
  cost.forward = small.cost(&Calls::forward);
  cost.backward = small.cost(&Calls::backward);
  cost.large_backward = large.cost(&Calls::backward);
  return cost;
}

}  // namespace strobe::bench
