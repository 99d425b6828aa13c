// Runs a CPU kernel of the library through the public API, with outputs and workspace from the counting allocator.
#pragma once

#include "bench/implementation.h"

namespace strobe::bench {

class KernelImplementation : public Implementation {
 public:
  explicit KernelImplementation(std::string kernel) : kernel_(std::move(kernel)) {}

  std::string name() const override { return kernel_; }
  std::string kernel() const override { return kernel_; }
  std::string configuration() const override { return configuration_; }
  std::optional<std::int64_t> predicted_bytes(const AttentionCase& one) override;
  void prepare(const AttentionCase& one, const Inputs& inputs) override;
  void release() override;
  double time(Region region) override;
  Results results() override;
  std::optional<std::int64_t> metered_bytes() override;
  std::optional<std::int64_t> saved_bytes() override;
  void settle() override;

 private:
  Execution execution() const;
  void run_forward();
  void run_backward();

  std::string kernel_;
  std::string configuration_;
  AttentionCase case_;
  Attention attention_;
  ConstView d_o_;
  Buffer o_, lse_, dq_, dk_, dv_, dbias_, dsinks_, workspace_;
};

}  // namespace strobe::bench
