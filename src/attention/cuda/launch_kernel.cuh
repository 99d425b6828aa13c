// Starts a kernel on the caller's stream; a failure becomes the library's error and names the kernel and its launch.
#pragma once

#include <cstdint>
#include <string>

#include "device/cuda/check.h"

namespace strobe::cuda {

struct Launch {
  const char* name;  // for people: "flash2 forward"
  std::int64_t blocks;
  int threads;
  std::size_t shared_bytes;
  void* stream;
};

inline constexpr std::int64_t kMostBlocks = 0x7fffffff;

// Lets a kernel have as much shared memory as the card allows: the limit is the kernel's, and another thread may launch
// it with less. A microsecond, so that a thread does it once for a kernel and a card; should two kernels share a place
// in its table, they take it in turns.
inline cudaError_t allow_shared_memory(const void* kernel) {
  struct Allowed {
    const void* kernel;
    int device;
  };
  static thread_local Allowed table[64] = {};
  int device = 0, most = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status != cudaSuccess) return status;
  Allowed& place = table[reinterpret_cast<std::uintptr_t>(kernel) / 16 % 64];
  if (place.kernel == kernel && place.device == device) return cudaSuccess;
  status = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (status == cudaSuccess) status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  if (status == cudaSuccess) place = {kernel, device};
  return status;
}

inline std::string described(const Launch& launch) {
  return std::string(launch.name) + " (" + std::to_string(launch.blocks) + " blocks of " +
         std::to_string(launch.threads) + " threads, " + std::to_string(launch.shared_bytes) + " bytes shared)";
}

inline void check_launched(cudaError_t status, const Launch& launch) {
  if (status != cudaSuccess) check(status, described(launch).c_str());
}

// What a launch needs before it: blocks that can be counted, and the kernel's shared memory.
inline void prepare_launch(const void* kernel, const Launch& launch) {
  if (launch.blocks > kMostBlocks) throw Error(ErrorCode::unsupported, "cuda: too many blocks: " + described(launch));
  if (launch.shared_bytes > 48 * 1024) check_launched(allow_shared_memory(kernel), launch);
}

template <class Args>
void launch_kernel(void (*kernel)(Args), const Launch& launch, const Args& args) {
  if (launch.blocks == 0) return;
  prepare_launch(reinterpret_cast<const void*>(kernel), launch);
  kernel<<<static_cast<unsigned>(launch.blocks), static_cast<unsigned>(launch.threads), launch.shared_bytes,
           static_cast<cudaStream_t>(launch.stream)>>>(args);
  check_launched(cudaGetLastError(), launch);
}

}  // namespace strobe::cuda
