// The kernels `standard` and `frugal` on the CPU: attention over materialised scores, with GEMMs through OpenBLAS.
// Every intermediate tensor is rounded to the problem's type. `standard` is the baseline for comparisons: like a tensor
// library, it stores the scores and probabilities of all heads. `frugal` stores the scores of one head at a time;
// choose() selects it if flash2 does not support the problem. The passes are in cpu/.

#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "attention/kernel_list.h"
#include "attention/standard/cpu/head.h"

namespace strobe {
namespace {

using namespace standard::cpu;
using standard::Variant;

// Sets dbias and dsinks, which are sums over heads, to zero.
void clear_sums(const Problem& problem) {
  if (problem.dsinks) std::fill_n(problem.dsinks, problem.heads_q, 0.0f);
  if (!problem.dbias) return;
  const auto& shape = problem.dbias.shape;
  const auto& stride = problem.dbias.stride;
  for (std::int64_t row = 0; row < shape[0] * shape[1] * shape[2]; ++row) {
    const std::int64_t i = row % shape[2];
    const std::int64_t h = row / shape[2] % shape[1];
    const std::int64_t b = row / shape[2] / shape[1];
    float* to = static_cast<float*>(problem.dbias.data) + b * stride[0] + h * stride[1] + i * stride[2];
    std::fill_n(to, shape[3], 0.0f);
  }
}

void run_passes(const Problem& problem, const WorkspaceLayout& layout, void* workspace) {
  const blas::BlasSession blas(problem.threads);
  const Call call{problem, layout, static_cast<char*>(workspace), blas};
  const std::int64_t heads = problem.batch * problem.heads_q;
  if (call.backward()) clear_sums(problem);
  for (std::int64_t first = 0; first < heads; first += layout.heads) {
    const HeadRange range{first, layout.heads};
    call.backward() ? backward_pass(call, range) : forward_pass(call, range);
  }
}

std::string refusal(const Problem& problem, Variant variant) {
  if (problem.batch_invariant && problem.pass == Pass::forward) {
    return "batch_invariant: the order of sums in OpenBLAS depends on the sizes of a call";
  }
  if (problem.max_seqlen_q > INT_MAX || problem.max_seqlen_k > INT_MAX) {
    return fmt::format("{} rows and {} keys: OpenBLAS supports sizes up to {}", problem.max_seqlen_q,
                       problem.max_seqlen_k, INT_MAX);
  }
  const std::int64_t heads = variant == Variant::frugal ? 1 : problem.batch * problem.heads_q;
  const double scores = static_cast<double>(heads) * static_cast<double>(problem.max_seqlen_q) *
                        static_cast<double>(problem.max_seqlen_k);
  if (scores <= 0x1p58) return {};
  return fmt::format("scores of {} heads, {} rows x {} keys do not fit in any memory", heads, problem.max_seqlen_q,
                     problem.max_seqlen_k);
}

double mebibytes(double bytes) { return bytes / (1 << 20); }

std::string text_of_standard(const Problem& problem) {
  const double elements = static_cast<double>(problem.batch * problem.heads_q) *
                          static_cast<double>(problem.max_seqlen_q) * static_cast<double>(problem.max_seqlen_k);
  return fmt::format("{}, {} of all heads materialised: {} x {:.1f} MiB", blas::gemm_name(),
                     problem.pass == Pass::forward ? "scores and probabilities" : "scores, probabilities and gradients",
                     problem.pass == Pass::forward ? 2 : 4,
                     mebibytes(elements * static_cast<double>(size_of(problem.dtype))));
}

std::string text_of_frugal(const Problem& problem) {
  const double bytes = 4.0 * static_cast<double>(problem.max_seqlen_q) * static_cast<double>(problem.max_seqlen_k);
  return fmt::format("{}, scores of one head materialised: {:.1f} MiB", blas::gemm_name(), mebibytes(bytes));
}

struct StandardLaunch {
  Variant variant;
  WorkspaceLayout layout;

  std::string text(const Problem& problem) const {
    return variant == Variant::standard ? text_of_standard(problem) : text_of_frugal(problem);
  }
  void run(const Problem& problem, void* workspace) const { run_passes(problem, layout, workspace); }
};

Plan plan_variant(const Problem& problem, Variant variant) {
  if (std::string reason = refusal(problem, variant); !reason.empty()) return Plan(std::move(reason));
  const WorkspaceLayout layout = layout_of(problem, variant);
  return Plan(StandardLaunch{variant, layout}, static_cast<std::size_t>(layout.total));
}

}  // namespace

Plan plan_standard(const Problem& problem) { return plan_variant(problem, Variant::standard); }
Plan plan_frugal(const Problem& problem) { return plan_variant(problem, Variant::frugal); }

}  // namespace strobe
