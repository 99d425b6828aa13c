// Creates implementations by name, and queries the library about its kernels.
#include "bench/implementation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "bench/cudnn_peer.h"
#include "bench/gpu_implementation.h"
#include "bench/kernel_implementation.h"
#include "bench/onednn_peer.h"
#include "bench/torch_peer.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::bench {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

// Returns the names of the library's CPU and GPU kernels, without duplicates.
std::vector<std::string> library_kernels() {
  std::vector<std::string> names = kernel_names(Device::cpu);
  for (const std::string& name : kernel_names(Device::cuda)) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace

std::vector<std::string> implementation_names() {
  std::vector<std::string> names = library_kernels();
  for (const char* peer : kTorchPeers) names.emplace_back(peer);
  names.emplace_back(kOnednnPeer);
  names.emplace_back(kCudnnPeer);
  return names;
}

bool is_peer(std::string_view name) { return is_torch_peer(name) || name == kCudnnPeer || name == kOnednnPeer; }

std::string canonical_name(std::string_view name) {
  const std::string wanted = lower(name) == "pytorch" ? "standard" : lower(name);
  const std::vector<std::string> names = implementation_names();
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return wanted;
  fail(ErrorCode::invalid_argument, "--impl {}: unknown implementation; valid: {}, Pytorch (= standard)",
       printable(name), fmt::join(names, ", "));
}

std::unique_ptr<Implementation> make_implementation(const std::string& name, const ImplementationOptions& options) {
  if (is_torch_peer(name)) {
    return std::make_unique<TorchPeer>(name, options.python ? options.python : std::make_shared<PythonChild>(600));
  }
  if (name == kCudnnPeer) return std::make_unique<CudnnPeer>();
  if (name == kOnednnPeer) return make_onednn_peer();
  if (options.device == Device::cuda) return std::make_unique<GpuKernel>(name);
  return std::make_unique<KernelImplementation>(name);
}

Verdict verdict_of(const std::string& kernel, const AttentionCase& one, Pass pass) {
  for (Verdict& verdict : explain(attention_of(one), pass, execution_of(one))) {
    if (verdict.kernel != kernel) continue;
    if (!verdict.refusal.empty()) fail(ErrorCode::unsupported, "{}: {}", kernel, verdict.refusal);
    return verdict;
  }
  fail(ErrorCode::unsupported, "{}: no such kernel on device {}; valid: {}", kernel, name_of(one.device),
       fmt::join(kernel_names(one.device), ", "));
}

std::size_t workspace_of(const std::string& kernel, const AttentionCase& one) {
  std::size_t bytes = verdict_of(kernel, one, Pass::forward).workspace_bytes;
  if (has_backward(one.passes)) bytes = std::max(bytes, verdict_of(kernel, one, Pass::backward).workspace_bytes);
  return bytes;
}

std::int64_t held_bytes(const std::string& kernel, const AttentionCase& one) {
  const TensorBytes bytes = tensor_bytes(one);
  const auto workspace = static_cast<std::int64_t>(workspace_of(kernel, one));
  return bytes.forward() + workspace + (has_backward(one.passes) ? bytes.backward_extra() : 0);
}

}  // namespace strobe::bench
