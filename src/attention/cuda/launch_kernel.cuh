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

template <class Args>
void launch_kernel(void (*kernel)(Args), const Launch& launch, const Args& args) {
  if (launch.blocks == 0) return;
  const auto describe = [&] {
    return std::string(launch.name) + " (" + std::to_string(launch.blocks) + " blocks of " +
           std::to_string(launch.threads) + " threads, " + std::to_string(launch.shared_bytes) + " bytes shared)";
  };
  if (launch.blocks > kMostBlocks) throw Error(ErrorCode::unsupported, "cuda: too many blocks: " + describe());
  if (launch.shared_bytes > 48 * 1024) {
    // Always the most that the card allows: the limit is the kernel's, and another thread may launch it with less.
    int device = 0, most = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess) status = cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    if (status == cudaSuccess) {
      status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
    }
    if (status != cudaSuccess) check(status, describe().c_str());
  }
  kernel<<<static_cast<unsigned>(launch.blocks), static_cast<unsigned>(launch.threads), launch.shared_bytes,
           static_cast<cudaStream_t>(launch.stream)>>>(args);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) check(status, describe().c_str());
}

}  // namespace strobe::cuda
