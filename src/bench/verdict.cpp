// Calls explain() for a case.
#include "bench/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/fail.h"

namespace strobe::bench {

Verdict verdict_of(const std::string& kernel, const Case& one, Pass pass) {
  for (Verdict& verdict : explain(attention_of(one), pass, execution_of(one))) {
    if (verdict.kernel != kernel) continue;
    if (!verdict.refusal.empty()) fail(ErrorCode::unsupported, "{}: {}", kernel, verdict.refusal);
    return verdict;
  }
  fail(ErrorCode::unsupported, "{}: no such kernel on device {}; valid: {}", kernel, name_of(one.device),
       fmt::join(kernel_names(one.device), ", "));
}

std::size_t workspace_of(const std::string& kernel, const Case& one) {
  std::size_t bytes = verdict_of(kernel, one, Pass::forward).workspace_bytes;
  if (has_backward(one.passes)) bytes = std::max(bytes, verdict_of(kernel, one, Pass::backward).workspace_bytes);
  return bytes;
}

std::int64_t held_bytes(const std::string& kernel, const Case& one) {
  const TensorBytes bytes = tensor_bytes(one);
  const auto workspace = static_cast<std::int64_t>(workspace_of(kernel, one));
  return bytes.forward() + workspace + (has_backward(one.passes) ? bytes.backward_extra() : 0);
}

}  // namespace strobe::bench
