// Launches a kernel of this folder on the caller's stream. Error messages contain the kernel's readable name and its
// launch size.
#pragma once

#include <cstdint>
#include <string>

#include "device/cuda/check.h"
#include "device/cuda/start_kernel.h"

namespace strobe::cuda {

struct Launch {
  const char* name;  // readable name, for example "flash2 forward"
  std::int64_t blocks;
  int threads;
  std::size_t shared_bytes;
  void* stream;
};

inline constexpr std::int64_t kMostBlocks = 0x7fffffff;

inline std::string described(const Launch& launch) {
  return std::string(launch.name) + " (" + std::to_string(launch.blocks) + " blocks of " +
         std::to_string(launch.threads) + " threads, " + std::to_string(launch.shared_bytes) +
         " bytes of shared memory)";
}

template <class Args>
cudaError_t start(void (*kernel)(Args), const Launch& launch, const Args& args, Waits waits, bool together) {
  if (launch.blocks > kMostBlocks) throw Error(ErrorCode::unsupported, "cuda: too many blocks: " + described(launch));
  void* arguments[] = {const_cast<Args*>(&args)};
  const Grid grid{static_cast<unsigned>(launch.blocks), static_cast<unsigned>(launch.threads), launch.shared_bytes,
                  together};
  return start_kernel(reinterpret_cast<const void*>(kernel), grid, launch.stream, arguments, waits);
}

template <class Args>
void launch_kernel(void (*kernel)(Args), const Launch& launch, const Args& args, Waits waits = Waits::in_launch) {
  if (launch.blocks == 0) return;
  const cudaError_t status = start(kernel, launch, args, waits, false);
  if (status != cudaSuccess) check(status, described(launch).c_str());
}

// Cooperative launch: all blocks are resident at once. Returns false and launches nothing if the context has too few
// multiprocessors for the blocks, or does not support cooperative launches. (A context may own only part of the GPU.)
template <class Args>
bool launch_together(void (*kernel)(Args), const Launch& launch, const Args& args) {
  if (launch.blocks == 0) return true;
  const cudaError_t status = start(kernel, launch, args, Waits::in_launch, true);
  if (status == cudaErrorCooperativeLaunchTooLarge || status == cudaErrorNotSupported) return false;
  if (status != cudaSuccess) check(status, described(launch).c_str());
  return true;
}

}  // namespace strobe::cuda
