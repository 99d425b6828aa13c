// Runs PyTorch's attention and FlashAttention-3 in a Python child process (python/torch_peer.py), so that the program
// does not link PyTorch. All these peers share one child. If the child has been restarted since prepare(), a request
// prepares the case again.
#pragma once

#include <memory>

#include "bench/implementation.h"
#include "bench/python_child.h"

namespace strobe::bench {

// torch-sdpa is the flash backend of scaled_dot_product_attention, or the memory-efficient one for fp32 on CUDA, which
// flash does not support. torch-math materialises scores. torch-naive is two matmuls and a softmax in plain PyTorch,
// and torch-compile is torch-naive with torch.compile. torch-flex is compiled FlexAttention. fa3 is FlashAttention-3,
// if its module can be imported. The others are single CUDA backends of scaled_dot_product_attention.
inline constexpr const char* kTorchPeers[] = {"torch-sdpa",      "torch-math",  "torch-naive",
                                              "torch-compile",   "torch-flex",  "torch-flash",
                                              "torch-efficient", "torch-cudnn", "fa3"};

bool is_torch_peer(std::string_view implementation);

class TorchPeer : public Implementation {
 public:
  TorchPeer(std::string name, std::shared_ptr<PythonChild> python)
      : name_(std::move(name)), python_(std::move(python)) {}

  std::string name() const override { return name_; }
  std::string kernel() const override { return kernel_; }
  std::string configuration() const override { return configuration_; }
  std::optional<std::int64_t> predicted_bytes(const AttentionCase& one) override;
  std::int64_t needed_bytes(const AttentionCase& one) override;
  bool has_own_dropout_mask() const override { return true; }
  void prepare(const AttentionCase& one, const Inputs& inputs) override;
  void release() override;
  double time(Region region) override;
  Results results() override;
  std::optional<std::int64_t> metered_bytes() override;
  std::optional<std::int64_t> saved_bytes() override;
  void settle() override;

 private:
  struct Place {
    std::int64_t offset;
    std::array<std::int64_t, 4> shape;
  };

  void start(const AttentionCase& one);
  void send_case();
  Json ask(Json message);  // does not prepare the case again
  std::optional<std::int64_t> ask_bytes(const char* command);
  Json ask_prepared(Json message);  // prepares the case again if Python was restarted
  void lay_out();
  Place place(const std::array<std::int64_t, 4>& shape);
  Json places() const;

  std::string name_;
  std::shared_ptr<PythonChild> python_;
  std::string kernel_;         // "scaled_dot_product_attention"
  std::string configuration_;  // versions, and backend or mode
  AttentionCase case_;
  const Inputs* inputs_ = nullptr;  // between prepare() and release()
  int generation_ = 0;              // generation of the Python child at prepare()
  std::int64_t bytes_ = 0;          // size of the shared memory layout
  Place q_{}, k_{}, v_{}, bias_{}, d_o_{}, o_{}, dq_{}, dk_{}, dv_{};
};

}  // namespace strobe::bench
