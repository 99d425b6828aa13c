// A GPU kernel of the library, called through the public API.
#pragma once

#include "bench/gpu_implementation.h"

namespace strobe::bench {

class GpuKernel : public GpuImplementation {
 public:
  explicit GpuKernel(std::string kernel) : kernel_(std::move(kernel)) {}

  std::string name() const override { return kernel_; }
  std::string kernel() const override { return kernel_; }
  std::string configuration() const override { return configuration_; }
  std::optional<std::int64_t> predicted_bytes(const Case& one) override;

 protected:
  std::size_t plan(const Case& one) override;
  void prepared() override;
  void run_forward() override;
  void run_backward() override;

 private:
  std::string kernel_;
  std::string configuration_;
  Execution execution_;
};

}  // namespace strobe::bench
