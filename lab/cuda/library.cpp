// Rung `library`: `pinned` with the library's kernel, which computes an fp32 matmul as several 16-bit matmuls on tensor
// cores, without loss of accuracy (docs/kernels-cuda.md).
#include <algorithm>

#include "core/clock.h"
#include "lab/cuda/memory.h"
#include "lab/cuda/runs.h"
#include "strobe/attention.h"

namespace strobe::lab {
namespace {

Attention attention_of(const Tensors& t) {
  const auto input = [&](const float* data) {
    const std::int64_t batch = t.rows * t.pitch;
    return ConstView{data, DType::fp32, {t.batch, 1, t.rows, t.dim}, {batch, batch, t.pitch, 1}};
  };
  return {.q = input(t.q), .k = input(t.k), .v = input(t.v)};
}

// Returns the workspace bytes that suffice for both chunk sizes of run_on_streams(). The smaller chunk may need more,
// because the library may split its keys (split-KV).
std::size_t most_workspace_bytes(const RungProblem& problem) {
  Tensors chunk{.batch = std::max(1, problem.batch / kMostChunks), .rows = problem.rows, .dim = problem.dim};
  chunk.pitch = problem.dim;
  const auto bytes = [&] { return workspace_bytes(attention_of(chunk), Pass::forward, {.device = Device::cuda}); };
  const std::size_t smaller = bytes();
  ++chunk.batch;
  return std::max(smaller, bytes());
}

struct Workspace {
  ~Workspace() { cudaFree(data); }
  void* data = nullptr;
  std::size_t bytes = 0;
};

}  // namespace

Split run_library(const RungProblem& problem, float* o) {
  const double start = now_seconds();
  Workspace workspace;
  workspace.bytes = most_workspace_bytes(problem);
  if (workspace.bytes > 0) STROBE_CUDA_CHECK(cudaMalloc(&workspace.data, workspace.bytes));
  const double allocated = now_seconds() - start;
  Split split = run_on_streams(problem, o, {.count = 4, .pinned = true}, [&](const Tensors& t, cudaStream_t stream) {
    const Attention attention = attention_of(t);
    View out{t.o, DType::fp32, attention.q.shape, attention.q.stride};
    forward(
        attention, {.o = out},
        {.device = Device::cuda, .stream = stream, .workspace = workspace.data, .workspace_bytes = workspace.bytes});
    return Launches{};  // the library does not report its launches
  });
  split.allocate += allocated;
  return split;
}

}  // namespace strobe::lab
