// Starts a kernel through the driver: the runtime's launches look the kernel up and check the context first, each time.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace strobe::cuda {

struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;  // dynamic; as much as the card allows
  // All blocks are on the GPU at once, so that they may wait for each other. Where that cannot be, start_kernel returns
  // cudaErrorCooperativeLaunchTooLarge or cudaErrorNotSupported, and nothing has happened.
  bool together = false;
};

// Who sees to it that a kernel finds what was written before it: the launch, for all earlier work of the stream; or the
// kernel, of which then every thread calls await_kernel_before() first. The latter is cheaper for the host, and the
// kernel is brought onto the GPU while the one before it ends. It waits for one kernel only: attention, before whose
// first kernel there may be anything of the caller's, starts that the first way; before one of ops' stand kernels of
// the same model, each of which ends after all before it. In a captured graph it is an edge.
enum class Waits { in_launch, in_kernel };

// arguments: the address of each of the kernel's. What it returns may be an error of earlier work.
cudaError_t start_kernel(const void* kernel, const Grid& grid, void* stream, void** arguments, Waits waits);

#if defined(__CUDACC__)
// Until the kernel before has ended and all that it wrote can be seen. Every thread of the grid, before anything else:
// this kernel then never ends before the other, and whoever waits for it has waited for both.
__device__ __forceinline__ void await_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
#endif

}  // namespace strobe::cuda
