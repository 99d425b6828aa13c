// Plan and launch of flash2's forward on CUDA.
#include "attention/cuda/sm80/forward/launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "attention/cuda/fp32/launch.h"
#include "attention/cuda/problem.h"
#include "attention/kernel_list.h"
#include "core/divide.h"
#include "device/cuda/start_kernel.h"

namespace strobe::cuda {

namespace sm80 {

namespace {

// The forward pass loads fp32 through registers, so the alignment of fp32 rows does not matter.
bool is_general(const Problem& problem) {
  return has_few_keys(problem) || problem.has_mask || !bias_takes_vectors(problem) ||
         (problem.dtype != DType::fp32 && !all_in_vectors(problem.q, problem.k, problem.v, problem.o));
}

ForwardConfig config_of(const Problem& problem, bool general) {
  return forward_config({
      .fp32 = problem.dtype == DType::fp32,
      .tf32 = problem.tf32,
      .d = static_cast<int>(problem.d),
      .dv = static_cast<int>(problem.dv),
      .options = has_score_options(problem),
      .bias = problem.has_bias,
      .general = general,
      .triangle = problem.causal || problem.window.right >= 0,
      .unsplittable = problem.has_bias,  // a partial LSE near -FLT_MAX loses the number of keys it represents
      .batch = problem.batch,
      .heads_q = problem.heads_q,
      .heads_kv = problem.heads_kv,
      .max_seqlen_q = problem.max_seqlen_q,
      .max_seqlen_k = problem.max_seqlen_k,
      .shared_bytes_per_block = problem.gpu.shared_bytes_per_block,
      .multiprocessors = problem.gpu.multiprocessors,
  });
}

void launch_tiles(const ForwardLaunch& launch) {
  switch (launch.config.d) {
    case 32: return ForwardKernels<32>::launch(launch);
    case 64: return ForwardKernels<64>::launch(launch);
    case 96: return ForwardKernels<96>::launch(launch);
    case 128: return ForwardKernels<128>::launch(launch);
    case 192: return ForwardKernels<192>::launch(launch);
    default: return ForwardKernels<256>::launch(launch);
  }
}

struct ForwardPlan {
  ForwardConfig config;

  std::string text(const Problem&) const {
    const char* kind = config.kind == ForwardKind::plain     ? "plain"
                       : config.kind == ForwardKind::options ? "options"
                       : config.kind == ForwardKind::small   ? "small"
                                                             : "general";
    std::string text =
        fmt::format("mma.sync, {}, head dimension {}, tiles of {} rows x {} keys, {} warps, {} stages", kind, config.d,
                    config.shape.rows, config.shape.keys, config.shape.warps, config.stages);
    if (config.splits > 1) text += fmt::format(", keys split {} ways", config.splits);
    return text + text_of(config.split_format);
  }

  void run(const Problem& problem, void* workspace) const {
    ForwardLaunch launch{.config = config, .dtype = problem.dtype, .stream = problem.stream, .args = {}};
    ForwardArgs& args = launch.args;
    args.params = params_of(problem);
    args.stages = config.stages;
    args.packed_heads = config.packed_heads;
    args.row_tiles = static_cast<std::int32_t>(ceil_div(problem.max_seqlen_q * config.packed_heads, config.shape.rows));
    args.splits = splits_in(workspace, config.splits, rows_of(problem), config.d);
    launch_tiles(launch);
    combine_splits(args.params, args.splits, launch.dtype, launch.stream, Waits::in_launch,
                   {args.params.first_keys, problem.has_mask});
  }
};

}  // namespace

}  // namespace sm80

Plan plan_sm80_forward(const Problem& problem) {
  if (std::string reason = tiled_refusal(problem); !reason.empty()) return Plan(std::move(reason));
  const sm80::ForwardPlan plan{sm80::config_of(problem, sm80::is_general(problem))};
  if (plan.config.shared_bytes > problem.gpu.shared_bytes_per_block) {
    if (problem.dtype == DType::fp32) return fp32::plan(problem);
    return Plan(shared_bytes_refusal(problem, plan.config.shared_bytes));
  }
  const auto bytes = [&](const sm80::ForwardConfig& config) {
    return splits_bytes(config.splits, rows_of(problem), config.d);
  };
  std::size_t most = bytes(plan.config);
  if (!outputs_are_known(problem)) {  // then the alignment of rows is unknown too: reserve enough for both cases
    for (const bool general : {has_few_keys(problem) || problem.has_mask, true}) {
      most = std::max(most, bytes(sm80::config_of(problem, general)));
    }
  }
  return Plan(plan, most);
}

}  // namespace strobe::cuda
