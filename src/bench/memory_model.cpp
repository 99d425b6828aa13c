// Predicts memory as sums of tensor sizes, without allocating.
#include "bench/memory_model.h"

#include <algorithm>
#include <numeric>

#include "device/device_info.h"
#include "measure/system_info.h"

namespace strobe::bench {
namespace {

std::int64_t sum(const std::vector<MemoryItem>& items) {
  return std::accumulate(items.begin(), items.end(), std::int64_t{0},
                         [](std::int64_t total, const MemoryItem& item) { return total + item.bytes; });
}

}  // namespace

std::int64_t MemoryModel::forward_bytes() const { return sum(forward); }
std::int64_t MemoryModel::backward_bytes() const { return sum(backward_extra); }

MemoryModel predict_kernel(const AttentionCase& one, const std::string& kernel) {
  const TensorBytes bytes = tensor_bytes(one);
  const Attention attention = attention_of(one);
  Execution execution = execution_of(one);
  execution.kernel = kernel;
  const auto forward = static_cast<std::int64_t>(workspace_bytes(attention, Pass::forward, execution));
  MemoryModel model{
      .implementation = kernel,
      .forward = {{"Q, K, V", bytes.inputs()}, {"output", bytes.o}, {"LSE", bytes.lse}, {"workspace", forward}},
      .backward_extra = {},
      .note = {}};
  if (bytes.options() > 0) model.forward.push_back({"score options", bytes.options()});
  if (has_backward(one.passes)) {
    const auto backward = static_cast<std::int64_t>(workspace_bytes(attention, Pass::backward, execution));
    model.backward_extra = {{"dO", bytes.o},
                            {"dQ, dK, dV", bytes.inputs()},
                            {"additional workspace", std::max<std::int64_t>(0, backward - forward)}};
    if (bytes.dbias + bytes.sinks > 0) model.backward_extra.push_back({"dbias, dsinks", bytes.dbias + bytes.sinks});
  }
  return model;
}

MemoryModel predict_plain(const AttentionCase& one) {
  const TensorBytes bytes = tensor_bytes(one);
  const std::int64_t scores = score_bytes(one);
  MemoryModel model{.implementation = "plain",
                    .forward = {{"Q, K, V", bytes.inputs()}, {"scores", scores}, {"output", bytes.o}},
                    .backward_extra = {},
                    .note = "scores of all heads, softmax in place; without dO, dQ, dK, dV"};
  if (has_backward(one.passes)) model.backward_extra = {{"gradient of the scores", scores}};
  return model;
}

MemoryModel predict_torch_naive(const AttentionCase& one) {
  constexpr std::int64_t kCublasBytes = std::int64_t{64} << 20;  // two workspaces, at compute capability 9.0
  const TensorBytes bytes = tensor_bytes(one);
  const std::int64_t scores = score_bytes(one);
  const std::int64_t group = one.heads / one.kv_heads;
  const bool on_gpu = one.device == Device::cuda;
  // Q, K and V of equal shape are views of one tensor; a batched GEMM over heads copies them.
  const bool copies = bytes.q == bytes.k && group == 1 && one.batch > 1 && one.heads > 1;
  MemoryModel model{
      .implementation = "torch-naive",
      .forward = {{"Q, K, V", bytes.inputs()}, {"scores, probabilities", 2 * scores}, {"output", bytes.o}},
      .backward_extra = {},
      .note = {}};
  if (one.masked()) model.forward.push_back({"mask", one.seqlen_q * one.seqlen_k});
  if (group > 1) model.forward.push_back({"K, V of every head", group * (bytes.k + bytes.v)});
  if (copies) model.forward.push_back({"contiguous Q, K", bytes.q + bytes.k});
  if (on_gpu) model.forward.push_back({"cuBLAS workspaces", kCublasBytes});
  if (has_backward(one.passes)) {
    model.backward_extra = {
        {"dO", bytes.o}, {"dV", group * bytes.v}, {"gradients of the scores", on_gpu ? 2 * scores : scores}};
    if (copies) model.backward_extra.push_back({"contiguous V", bytes.v});
  }
  return model;
}

std::int64_t free_bytes(Device device) {
  const std::int64_t known = device == Device::cuda ? static_cast<std::int64_t>(current_gpu_info().memory_free_bytes)
                                                    : read_memory_info().available;
  return known > 0 ? known : INT64_MAX;
}

}  // namespace strobe::bench
