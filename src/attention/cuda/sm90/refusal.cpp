// Implements refusal.h. `strobe explain` and error messages print the reasons.
#include "attention/cuda/sm90/refusal.h"

#include <fmt/format.h>

#include <algorithm>

#include "attention/cuda/params.h"
#include "attention/cuda/problem.h"
#include "attention/kernel_list.h"
#include "core/divide.h"
#include "core/philox.h"

namespace strobe::cuda::sm90 {

namespace {

constexpr std::int64_t kMostSize = std::int64_t{1} << 31;         // elements per dimension: box coordinates are int32
constexpr std::int64_t kMostStrideBytes = std::int64_t{1} << 40;  // between elements of a dimension
constexpr int kHopper = 90;

#ifdef STROBE_SM90A
constexpr bool kBuiltIn = true;
#else
constexpr bool kBuiltIn = false;
#endif

std::string rows_refusal(const char* name) {
  return name ? fmt::format("{} has rows that are not 16-byte aligned or not multiples of 16 bytes", name) : "";
}

}  // namespace

bool is_uneven(const Problem& problem) {
  return problem.masked() || problem.packed || problem.lengths_q || problem.lengths_k;
}

bool drops(const Problem& problem) { return dropout_threshold(problem.dropout.p) != 0; }

const char* drops_with_alibi(const Problem& problem) { return problem.alibi_slopes ? "dropout with ALiBi" : nullptr; }

const char* option_refused(const Problem& problem, const char* dropout, ScoreTerms terms) {
  if (problem.has_mask) return "a boolean mask";
  if (problem.first_keys) return "first_keys (left padding)";
  if (problem.alibi_batch_stride != 0) return "ALiBi slopes per sequence";
  if (problem.alibi_slopes && terms == ScoreTerms::none) return "ALiBi slopes";
  if (problem.has_bias) {
    if (terms != ScoreTerms::one) return "a bias";
    if (problem.alibi_slopes) return "a bias with ALiBi";
    if (drops(problem)) return "a bias with dropout";
    if (!bias_takes_vectors(problem)) return "a bias in fp32, or with rows that are not 16-byte aligned";
  }
  if (dropout && drops(problem)) return dropout;
  if (!(problem.scale > 0)) return "a scale that is not positive";
  return nullptr;
}

std::string problem_refusal(const Problem& problem, const char* option, std::int64_t most_dim, std::int64_t few_rows) {
  if (std::string reason = common_refusal(problem); !reason.empty()) return reason;
  if (!kBuiltIn) return "this build has no machine code for sm_90a";
  if (problem.gpu.compute_capability != kHopper) {
    return fmt::format("it needs compute capability 9.0; the GPU has {}.{}", problem.gpu.compute_capability / 10,
                       problem.gpu.compute_capability % 10);
  }
  if (option) return fmt::format("it does not support {}", option);
  if (problem.d > most_dim || problem.dv > most_dim) {
    return fmt::format("head dimensions {} and {}; it takes up to {} in {}", problem.d, problem.dv, most_dim,
                       name_of(problem.dtype));
  }
  if (has_few_keys(problem)) return fmt::format("{} keys; it needs more than {}", problem.max_seqlen_k, kFewKeys);
  if (problem.max_seqlen_q * problem.group <= few_rows) {
    return fmt::format("{} rows per group of query heads; flash2 is faster for up to {}",
                       problem.max_seqlen_q * problem.group, few_rows);
  }
  return {};
}

std::string map_refusal(const char* name, const ConstView& view) {
  if (!in_vectors(view))
    return fmt::format("{} has rows that are not 16-byte aligned or not multiples of 16 bytes", name);
  for (const std::int64_t size : view.shape) {
    if (size < 1) return fmt::format("{} has no elements", name);
    if (size >= kMostSize)
      return fmt::format("{} has {} elements along a dimension; it must have fewer than 2^31", name, size);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t stride = view.stride[i];
    if (stride == 0 && view.shape[i] > 1) return fmt::format("{} is expanded (stride 0)", name);
    if (stride < 0 || stride * 2 >= kMostStrideBytes) {
      return fmt::format("{} has a stride of {} elements; valid: 0 to 2^39 - 1", name, stride);
    }
  }
  return {};
}

std::string input_refusal(const Problem& p) {
  return rows_refusal(!in_vectors(p.q) ? "q" : !in_vectors(p.k) ? "k" : !in_vectors(p.v) ? "v" : nullptr);
}

std::string output_refusal(const Problem& p) {
  if (!outputs_are_known(p)) return {};
  if (p.pass == Pass::forward) return rows_refusal(in_vectors(p.o) ? nullptr : "o");
  return rows_refusal(!in_vectors(p.d_o)      ? "dO"
                      : !in_vectors(p.dq)     ? "dQ"
                      : !in_vectors(p.dk)     ? "dK"
                      : !in_vectors(p.dv_out) ? "dV"
                                              : nullptr);
}

std::string shared_refusal(const Problem& problem, std::size_t needed) {
  const std::size_t had = problem.gpu.shared_bytes_per_block;
  if (needed <= had) return {};
  return fmt::format("it needs {} bytes of shared memory per block; the GPU has {}", needed, had);
}

// Counts tiles as if every sequence had the maximum length. In a packed batch this may be far above the actual number.
// The backward kernels number row and key tiles together.
std::string tiles_refusal(const Problem& problem, std::int64_t least) {
  const std::int64_t rows = problem.batch * problem.heads_q * ceil_div(problem.max_seqlen_q, least);
  const std::int64_t keys = problem.batch * problem.heads_kv * ceil_div(problem.max_seqlen_k, least);
  const std::int64_t tiles = problem.pass == Pass::backward ? rows + keys : std::max(rows, keys);
  return tiles >= std::int64_t{1} << 31 ? fmt::format("{} tiles; it supports fewer than 2^31", tiles) : "";
}

std::size_t bytes_with_flash2(const Problem& problem, std::size_t own) {
  if (outputs_are_known(problem)) return own;
  const bool forward = problem.pass == Pass::forward;
  return std::max(own, (forward ? plan_sm80_forward : plan_sm80_backward)(problem).workspace_bytes);
}

}  // namespace strobe::cuda::sm90
