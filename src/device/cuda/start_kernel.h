// Launches kernels through the driver. The runtime's launch takes the host more time, because it looks up the kernel
// and checks the context every time. Used by the launchers of CUDA kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace strobe::cuda {

struct Grid {
  dim3 blocks, threads;
  std::size_t shared_bytes = 0;  // dynamic shared memory; at most the GPU's limit
  // Cooperative launch: all blocks are co-resident and may wait for each other. If that is impossible, start_kernel
  // returns cudaErrorCooperativeLaunchTooLarge or cudaErrorNotSupported and launches nothing.
  bool cooperative = false;
};

// Selects how a kernel is ordered after earlier work of the stream. A captured graph stores the order as an edge.
// - in_launch: normal stream order. The first kernel of an attention call uses it, because any work of the caller may
//   precede the call.
// - in_kernel: programmatic dependent launch (PDL), in which every thread calls await_kernel_before() first. A PDL
//   launch costs the host less, and the kernel starts while the previous kernel drains. But the kernel waits only for
//   the previous kernel. Kernels of ops may use PDL, because they follow only kernels of the same model, each of which
//   ends after all earlier ones.
enum class Waits { in_launch, in_kernel };

// Launches a kernel. `arguments` are the addresses of the kernel's arguments. May return an error of earlier work.
cudaError_t start_kernel(const void* kernel, const Grid& grid, void* stream, void** arguments, Waits waits);

#if defined(__CUDACC__)
// Executes griddepcontrol.wait, which returns when the previous kernel has ended and its writes are visible. Every
// thread of the grid must call this first. The calling kernel then cannot end before the previous one. So a wait for
// the calling kernel is also a wait for the previous one.
__device__ __forceinline__ void await_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Executes griddepcontrol.launch_dependents. Once every block has called this or exited, the blocks of a next kernel
// with in_kernel may start while this kernel runs. They still wait for its end.
__device__ __forceinline__ void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
#endif

}  // namespace strobe::cuda
