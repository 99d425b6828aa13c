// Implements gpu_facts.h with the CUDA runtime. The properties of each GPU are queried once.
#include "device/gpu_facts.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include "device/cuda/check.h"
#include "device/device_info.h"

namespace strobe {

namespace {

GpuFacts ask(int device) {
  GpuFacts facts;
  facts.compute_capability = 10 * cuda::attribute(cudaDevAttrComputeCapabilityMajor, device) +
                             cuda::attribute(cudaDevAttrComputeCapabilityMinor, device);
  facts.shared_bytes_per_block =
      static_cast<std::size_t>(cuda::attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  facts.multiprocessors = cuda::attribute(cudaDevAttrMultiProcessorCount, device);
  return facts;
}

const GpuFacts& cached(int device) {
  static std::mutex mutex;
  static auto* const known = new std::map<int, GpuFacts>;  // never destroyed, because threads may call this at exit
  const std::lock_guard lock(mutex);
  auto found = known->find(device);
  if (found == known->end()) found = known->emplace(device, ask(device)).first;
  return found->second;
}

}  // namespace

int gpu_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

void use_gpu(int index) { STROBE_CUDA_CHECK(cudaSetDevice(index)); }

CurrentGpu current_gpu() {
  CurrentGpu gpu;
  if (cudaGetDevice(&gpu.index) != cudaSuccess) {
    cudaGetLastError();
    gpu.reason = gpu_inventory().reason;
    if (gpu.reason.empty()) gpu.reason = "the CUDA runtime has no current GPU";
    return gpu;
  }
  try {
    gpu.facts = cached(gpu.index);
  } catch (const Error& error) {
    gpu.reason = gpu_inventory().reason;
    if (gpu.reason.empty()) gpu.reason = error.what();
    return gpu;
  }
  gpu.facts.shared_bytes_per_block =
      limited_shared_bytes(gpu.facts.shared_bytes_per_block, std::getenv("STROBE_CUDA_SHARED_KB"));
  return gpu;
}

}  // namespace strobe
