// PyTorch's attention in the Python child of the run: never linked, fed over a pipe and shared memory. All torch-*
// peers are asked through one child; where another of them has ended it, it is started anew and the case prepared
// again.
#pragma once

#include <memory>

#include "bench/implementation.h"
#include "bench/python_child.h"

namespace strobe::bench {

// torch-sdpa: the flash backend (on CUDA in fp32, which that does not take: the memory-efficient one); torch-math:
// materialised scores; torch-naive: two products and a softmax as a person writes them; torch-compile: these by
// torch.compile. The others are single backends of CUDA.
inline constexpr const char* kTorchPeers[] = {"torch-sdpa",  "torch-math",      "torch-naive", "torch-compile",
                                              "torch-flash", "torch-efficient", "torch-cudnn"};

bool is_torch_peer(std::string_view implementation);

class TorchPeer : public Implementation {
 public:
  TorchPeer(std::string name, std::shared_ptr<PythonChild> python)
      : name_(std::move(name)), python_(std::move(python)) {}

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
  std::optional<std::int64_t> kept_bytes() override;
  void settle() override;

 private:
  struct Place {
    std::int64_t offset;
    std::array<std::int64_t, 4> shape;
  };

  void start(const Case& one);
  void send_case();
  Json ask(Json message);  // of this peer, whatever Python knows of it
  std::optional<std::int64_t> ask_bytes(const char* command);
  Json ask_prepared(Json message);  // prepares once more where Python was started anew
  void lay_out();
  Place place(std::int64_t heads, std::int64_t rows);
  Json places() const;

  std::string name_;
  std::shared_ptr<PythonChild> python_;
  std::string kernel_;         // "scaled_dot_product_attention"
  std::string configuration_;  // versions, and the backend or how it runs
  Case case_;
  const Inputs* inputs_ = nullptr;  // while it is prepared
  int generation_ = 0;              // of the Python child that was
  std::int64_t bytes_ = 0;          // of the shared memory so far
  Place q_{}, k_{}, v_{}, d_o_{}, o_{}, dq_{}, dk_{}, dv_{};
};

}  // namespace strobe::bench
