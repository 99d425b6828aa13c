// Implements problem.h.
#include "attention/cuda/problem.h"

#include <fmt/format.h>

#include "attention/cuda/params.h"

namespace strobe::cuda {

namespace {

constexpr int kOldestCapability = 80;  // Ampere: the oldest architecture for which the build has machine code or PTX
// Limit of rows plus keys, because kernels add a row, an offset and a window in 32 bits.
constexpr std::int64_t kMostPositions = std::int64_t{1} << 30;

}  // namespace

bool has_few_keys(const Problem& problem) { return problem.max_seqlen_k <= kFewKeys; }

bool has_score_options(const Problem& problem) {
  return problem.softcap != 0 || problem.alibi_slopes || problem.has_bias || problem.has_mask ||
         problem.dropout.p != 0 || !(problem.scale > 0);
}

bool bias_takes_vectors(const Problem& problem) {
  const ConstView& bias = problem.bias;
  if (!problem.has_bias) return true;
  const auto whole = [](std::int64_t elements) { return elements % 8 == 0; };
  return bias.dtype != DType::fp32 && reinterpret_cast<std::uintptr_t>(bias.data) % 16 == 0 && whole(bias.stride[2]) &&
         whole(bias.stride[1]) && whole(bias.stride[0]);
}

std::int64_t rows_of(const Problem& problem) {
  return (problem.packed ? 1 : problem.batch) * problem.heads_q * problem.total_q;
}

namespace {

// Returns why the problem needs a CPU kernel: an option that only CPU kernels compute. Empty if it has none.
std::string cpu_option(const Problem& problem) {
  if (problem.dropout.seed_data) return "dropout seed_data works only on the CPU; on CUDA pass the seed by value";
  if (!problem.lse_contiguous) return "CUDA kernels index LSE like their workspace, so it must be contiguous";
  if (problem.batch_invariant) return "batch_invariant works only on the CPU";
  return {};
}

}  // namespace

std::string common_refusal(const Problem& problem) {
  if (problem.gpu.compute_capability < kOldestCapability) {
    return fmt::format("the GPU has compute capability {}.{}; CUDA kernels need {}.{} or later",
                       problem.gpu.compute_capability / 10, problem.gpu.compute_capability % 10, kOldestCapability / 10,
                       kOldestCapability % 10);
  }
  if (std::string reason = cpu_option(problem); !reason.empty()) return reason;
  if (problem.max_seqlen_q + problem.max_seqlen_k > kMostPositions) {
    return fmt::format("{} rows and {} keys; CUDA kernels support at most {} rows plus keys", problem.max_seqlen_q,
                       problem.max_seqlen_k, kMostPositions);
  }
  return {};
}

std::string tiled_refusal(const Problem& problem) {
  if (std::string reason = common_refusal(problem); !reason.empty()) return reason;
  if (problem.d <= kMostTiledDim && problem.dv <= kMostTiledDim) return {};
  return fmt::format("head dimensions {} and {}; it takes up to {}", problem.d, problem.dv, kMostTiledDim);
}

std::string shared_bytes_refusal(const Problem& problem, std::size_t needed) {
  return fmt::format("{} with head dimensions {} and {} needs {} bytes of shared memory per block; the GPU has {}",
                     name_of(problem.dtype), problem.d, problem.dv, needed, problem.gpu.shared_bytes_per_block);
}

}  // namespace strobe::cuda
