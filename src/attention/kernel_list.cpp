// The list of kernels, in the order in which choose() tries those of a device. CUDA has no `reference`, because tests
// compute its float64 values on the CPU.
#include "attention/kernel_list.h"

namespace strobe {

std::span<const Kernel> kernels() {
  static constexpr Kernel kList[] = {
      {"flash2", Device::cpu, Pass::forward, plan_flash2},
      {"flash2", Device::cpu, Pass::backward, plan_flash2},
      {"frugal", Device::cpu, Pass::forward, plan_frugal},
      {"frugal", Device::cpu, Pass::backward, plan_frugal},
      {"standard", Device::cpu, Pass::forward, plan_standard},
      {"standard", Device::cpu, Pass::backward, plan_standard},
      {"reference", Device::cpu, Pass::forward, plan_reference},
      {"reference", Device::cpu, Pass::backward, plan_reference},

      {"hopper", Device::cuda, Pass::forward, cuda::plan_sm90_forward, Types::fp16_and_bf16},
      {"hopper", Device::cuda, Pass::forward, cuda::plan_sm90_forward_fp32, Types::fp32},
      {"hopper", Device::cuda, Pass::backward, cuda::plan_sm90_backward, Types::fp16_and_bf16},
      {"hopper", Device::cuda, Pass::backward, cuda::plan_sm90_backward_fp32, Types::fp32},
      {"flash2", Device::cuda, Pass::forward, cuda::plan_sm80_forward},
      {"flash2", Device::cuda, Pass::backward, cuda::plan_sm80_backward},
      {"frugal", Device::cuda, Pass::forward, cuda::plan_frugal},
      {"frugal", Device::cuda, Pass::backward, cuda::plan_frugal},
      {"standard", Device::cuda, Pass::forward, cuda::plan_standard},
      {"standard", Device::cuda, Pass::backward, cuda::plan_standard},
  };
  return kList;
}

}  // namespace strobe
