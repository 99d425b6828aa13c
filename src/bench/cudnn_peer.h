// Runs cuDNN's fused attention in this process as a peer, a third-party implementation to compare with. Stream, timing
// and memory counters are those of Strobe's GPU kernels.
#pragma once

#include "bench/cudnn_plan.h"
#include "bench/gpu_implementation.h"

namespace strobe::bench {

inline constexpr const char* kCudnnPeer = "cudnn";

class CudnnPeer : public GpuImplementation {
 public:
  std::string name() const override { return kCudnnPeer; }
  std::string kernel() const override { return kernel_; }
  std::string configuration() const override { return configuration_; }
  std::optional<std::int64_t> predicted_bytes(const AttentionCase& one) override;

 protected:
  std::size_t plan(const AttentionCase& one) override;
  bool writes_lse(const AttentionCase& one) const override;
  void prepared() override;
  void run_forward() override;
  void run_backward() override;

 private:
  struct Plans {
    CudnnProblem problem;
    CudnnPlan forward;
    std::optional<CudnnPlan> backward;
  };

  std::optional<Plans> plans_;  // for the last queried case
  CudnnPointers pointers_;
  std::string kernel_;         // "cudnn 9.19.0, forward eng4_k24=0, backward ..."
  std::string configuration_;  // kernel_ and the version of cudnn-frontend
};

}  // namespace strobe::bench
