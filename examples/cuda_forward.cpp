// Causal attention on a GPU with device pointers, the caller's stream and the caller's workspace. Strobe's calls
// neither allocate memory nor wait for the GPU, so CUDA graphs can capture them.
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "strobe/attention.h"

namespace {

void check(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(status));
  std::exit(1);
}

float* on_gpu(const std::vector<float>& values) {
  void* data = nullptr;
  check(cudaMalloc(&data, values.size() * sizeof(float)));
  check(cudaMemcpy(data, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
  return static_cast<float*>(data);
}

}  // namespace

int main() {
  using namespace strobe;
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) return std::puts("skipped: this machine has no GPU"), 77;
  constexpr std::int64_t kBatch = 2, kHeads = 4, kRows = 256, kDim = 64;
  const std::array<std::int64_t, 4> shape{kBatch, kHeads, kRows, kDim};
  std::vector<float> host(kBatch * kHeads * kRows * kDim), result(host.size());
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = std::sin(0.37f * static_cast<float>(i));
  float *q = on_gpu(host), *k = on_gpu(host), *v = on_gpu(host), *o = on_gpu(host);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream));

  const auto input = [&](const float* data) { return view_bhsd<const void>(data, DType::fp32, shape); };
  const Attention attention{.q = input(q), .k = input(k), .v = input(v), .causal = true};
  Execution execution{.device = Device::cuda, .stream = stream};
  try {
    execution.workspace_bytes = workspace_bytes(attention, Pass::forward, execution);
    if (execution.workspace_bytes > 0) check(cudaMalloc(&execution.workspace, execution.workspace_bytes));
    forward(attention, {.o = view_bhsd<void>(o, DType::fp32, shape)}, execution);
    for (const Verdict& verdict : explain(attention, Pass::forward, execution)) {
      if (verdict.chosen) std::printf("kernel %s: %s\n", verdict.kernel.c_str(), verdict.configuration.c_str());
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  check(cudaMemcpyAsync(result.data(), o, result.size() * sizeof(float), cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));

  // With a causal mask the first row uses only the first key, so its output is that key's value.
  for (std::int64_t c = 0; c < kDim; ++c) {
    if (std::abs(result[static_cast<std::size_t>(c)] - host[static_cast<std::size_t>(c)]) > 1e-6f) return 1;
  }
  std::printf("o[0] %f, last %f\n", static_cast<double>(result.front()), static_cast<double>(result.back()));
  for (void* data : {static_cast<void*>(q), static_cast<void*>(k), static_cast<void*>(v), static_cast<void*>(o)}) {
    check(cudaFree(data));
  }
  check(cudaFree(execution.workspace));
  check(cudaStreamDestroy(stream));
  return 0;
}
