// Starts a kernel of Hopper's, and lets it wait for the one before it. cudaLaunchKernelExC tells by itself whether it
// failed, and may leave the wait to the kernel, which makes a launch a third cheaper for the host.
#pragma once

#include "attention/cuda/launch_kernel.cuh"

namespace strobe::cuda::sm90 {

// Who sees to it that a kernel finds what was written before it: the launch, for all earlier work of the stream; or the
// kernel, of which then every thread calls await_kernel_before() first. It waits for one kernel only, so that a call's
// first kernel, before which there may be anything, is started the first way. In a captured graph it is an edge.
enum class Waits { in_launch, in_kernel };

template <class Args>
void start_kernel(void (*kernel)(Args), const Launch& launch, const Args& args, Waits waits = Waits::in_launch) {
  if (launch.blocks == 0) return;
  const auto* const function = reinterpret_cast<const void*>(kernel);
  prepare_launch(function, launch);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(launch.blocks));
  config.blockDim = dim3(static_cast<unsigned>(launch.threads));
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = static_cast<cudaStream_t>(launch.stream);
  config.attrs = &attribute;
  config.numAttrs = waits == Waits::in_kernel ? 1 : 0;
  void* arguments[] = {const_cast<Args*>(&args)};
  check_launched(cudaLaunchKernelExC(&config, function, arguments), launch);
}

// Until the kernel before has ended and all that it wrote can be seen. Every thread of the grid, before anything else:
// this kernel then never ends before the other, and whoever waits for it has waited for both.
__device__ __forceinline__ void await_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace strobe::cuda::sm90
