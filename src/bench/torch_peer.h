// PyTorch's attention in a Python child process: never linked, fed over a pipe and shared memory, restarted when it
// fails. STROBE_PYTHON names the interpreter (default python3).
#pragma once

#include <memory>

#include "bench/child.h"
#include "bench/implementation.h"

namespace strobe::bench {

// torch-sdpa: the flash backend (on CUDA in fp32, which that does not take: the memory-efficient one); torch-math:
// materialised scores; torch-naive: two products and a softmax as a person writes them; torch-compile: these by
// torch.compile. The others are single backends of CUDA.
inline constexpr const char* kTorchPeers[] = {"torch-sdpa",  "torch-math",      "torch-naive", "torch-compile",
                                              "torch-flash", "torch-efficient", "torch-cudnn"};

const char* torch_peer_script();  // python/torch_peer.py

class TorchPeer : public Implementation {
 public:
  TorchPeer(std::string name, double timeout) : name_(std::move(name)), timeout_(timeout) {}

  std::string name() const override { return name_; }
  std::string kernel() const override { return kernel_; }
  std::string configuration() const override { return configuration_; }
  std::optional<std::int64_t> predicted_bytes(const Case& one) override;
  std::int64_t needed_bytes(const Case& one) override;
  void prepare(const Case& one, const Inputs& inputs) override;
  void release() override;
  double time(Region region) override;
  Results results() override;
  std::optional<std::int64_t> metered_bytes() override;
  void settle() override;

 private:
  struct Place {
    std::int64_t offset;
    std::array<std::int64_t, 4> shape;
  };

  void start(const Case& one);
  Json ask(Json message);
  Place place(std::int64_t heads, std::int64_t rows);

  std::string name_;
  double timeout_;
  std::string kernel_;         // "scaled_dot_product_attention"
  std::string configuration_;  // versions, and the backend or how it runs
  std::string versions_;
  std::unique_ptr<SharedMemory> memory_;
  std::unique_ptr<Child> child_;
  Case case_;
  std::int64_t bytes_ = 0;  // of the shared memory so far
  Place q_{}, k_{}, v_{}, d_o_{}, o_{}, dq_{}, dk_{}, dv_{};
};

}  // namespace strobe::bench
