// Plan and launch of the Hopper forward for fp16 and bf16.
#include "attention/cuda/sm90/forward/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "attention/cuda/problem.h"
#include "attention/cuda/sm90/decode/config.h"
#include "attention/cuda/sm90/forward/scheduler.h"
#include "attention/cuda/sm90/refusal.h"
#include "attention/cuda/sm90/tensor_map.h"
#include "attention/kernel_list.h"
#include "core/fail.h"
#include "device/cuda/check.h"
#include "device/cuda/start_kernel.h"

namespace strobe::cuda {

namespace sm90 {

ForwardArgs begin_forward(const ForwardLaunch& launch, const Params& params, void* workspace) {
  const ForwardConfig& config = launch.config;
  ForwardArgs args;
  args.params = ForwardParams(params);
  args.q = tensor_map(params.q, q_sizes(params), rows_of(config.shape));
  args.k = tensor_map(params.k, k_sizes(params), config.shape.keys);
  args.v = tensor_map(params.v, v_sizes(params), config.shape.keys);
  args.scheduler = forward_scheduler(params, rows_of(config.shape), config.splits);
  if (config.splits > 1) {
    char* const partial = static_cast<char*>(workspace) + kForwardCounterBytes;
    args.splits = splits_in(partial, config.splits, launch.rows, config.dims.dv);
  }
  if (uses_work_counter(args.scheduler, launch.uneven, launch.multiprocessors)) {
    args.scheduler.l2_swizzle = forward_l2_swizzle(params, 2);
    args.scheduler.next = static_cast<std::uint32_t*>(workspace);
    STROBE_CUDA_CHECK(cudaMemsetAsync(workspace, 0, sizeof(std::uint32_t), static_cast<cudaStream_t>(launch.stream)));
  }
  return args;
}

std::size_t forward_workspace_bytes(const ForwardLaunch& launch) {
  const std::size_t partial = splits_bytes(launch.config.splits, launch.rows, launch.config.dims.dv);
  return launch.uneven || partial > 0 ? kForwardCounterBytes + partial : 0;
}

namespace {

void launch_plain(const ForwardLaunch& launch, const ForwardArgs& args) {
  const HeadDims dims = launch.config.dims;
  const auto tiles = dims.d == 64     ? launch_forward_tiles<64, 64>
                     : dims.d == 96   ? launch_forward_tiles<96, 96>
                     : dims.d == 128  ? launch_forward_tiles<128, 128>
                     : dims.d == 256  ? launch_forward_tiles<256, 256>
                     : dims.dv == 128 ? launch_forward_tiles<192, 128>
                                      : launch_forward_tiles<192, 192>;
  tiles(launch, args);
}

void launch_dropping(const ForwardLaunch& launch, const ForwardArgs& args, const Params& params) {
  DroppingForwardArgs dropping{args, params.dropout_threshold, params.dropout_scale};
  std::memcpy(dropping.philox_keys, params.philox_keys, sizeof(params.philox_keys));
  const int d = launch.config.dims.d;
  const auto tiles = d == 64    ? launch_dropping_tiles<64>
                     : d == 128 ? launch_dropping_tiles<128>
                                : launch_dropping_tiles<256>;
  tiles(launch, dropping);
}

void launch_alibi(const ForwardLaunch& launch, const ForwardArgs& args, const Params& params) {
  const int d = launch.config.dims.d;
  const auto tiles = d == 64 ? launch_alibi_tiles<64> : d == 128 ? launch_alibi_tiles<128> : launch_alibi_tiles<256>;
  tiles(launch, {args, params.alibi_slopes});
}

}  // namespace

void launch_forward(const ForwardLaunch& launch, const Params& params, void* workspace) {
  const ForwardArgs args = begin_forward(launch, params, workspace);
  if (params.dropout_threshold != 0) {
    launch_dropping(launch, args, params);
  } else if (params.bias.data) {
    (launch.config.dims.d == 64 ? launch_bias_tiles<64> : launch_bias_tiles<128>)(launch, {args, params.bias});
  } else if (params.alibi_slopes) {
    launch_alibi(launch, args, params);
  } else {
    launch_plain(launch, args);
  }
  combine_splits(params, args.splits, launch.dtype, launch.stream, Waits::in_kernel);
}

namespace {

static_assert(kMostBiasDim == 128);  // named in forward_refusal()

std::string forward_refusal(const Problem& problem) {
  const char* option = option_refused(problem, drops_with_alibi(problem), ScoreTerms::one);
  if (problem.has_bias && std::max(problem.d, problem.dv) > kMostBiasDim) {
    option = "a bias with head dimensions above 128";
  }
  std::string reason = problem_refusal(problem, option, kMostTiledDim);
  if (reason.empty()) reason = map_refusal("q", problem.q);
  if (reason.empty()) reason = map_refusal("k", problem.k);
  if (reason.empty()) reason = map_refusal("v", problem.v);
  if (reason.empty()) reason = output_refusal(problem);
  if (reason.empty()) reason = tiles_refusal(problem, 64);
  return reason;
}

// Largest number of keys that a row sees in a window that is bounded on both sides; 0: no such window.
std::int64_t window_of(const Problem& problem) {
  const std::int64_t left = problem.window.left, right = problem.causal ? 0 : problem.window.right;
  const bool bounded = left >= 0 && right >= 0 && left < problem.max_seqlen_k && right < problem.max_seqlen_k;
  return bounded && left + right + 1 < problem.max_seqlen_k ? left + right + 1 : 0;
}

// Returns the chosen configuration, or the one that STROBE_HOPPER_TILES forces.
ForwardConfig config_of(const ForwardFacts& facts) {
  const char* const tiles = std::getenv("STROBE_HOPPER_TILES");
  if (!tiles || !*tiles || facts.drops || facts.alibi || facts.bias) return forward_config(facts);
  const std::string_view name = tiles;
  if (name == "table") return forced_config(facts, 0, 1);
  if (name == "128") return forced_config(facts, 128, 1);
  if (name == "64") return forced_config(facts, 64, 1);
  int splits = 0;
  const char* const end = name.data() + name.size();
  const bool read = name.starts_with("64x") && std::from_chars(name.data() + 3, end, splits).ptr == end;
  if (!read || splits < 2 || splits > kMostSplits) {
    fail(ErrorCode::invalid_argument, "cuda: STROBE_HOPPER_TILES is '{}'; valid: table, 128, 64, and 64x2 to 64x{}",
         name, kMostSplits);
  }
  return forced_config(facts, 64, splits);
}

struct ForwardPlan : ForwardLaunch {
  std::string text(const Problem&) const {
    const ForwardShape& shape = config.shape;
    std::string text = fmt::format(
        "wgmma, head dimensions {} and {}, tiles of {} rows x {} keys, {} warpgroup{}, {} stages of K and V, {} of Q",
        config.dims.d, config.dims.dv, rows_of(shape), shape.keys, shape.consumers,
        shape.shares           ? "s that alternate key tiles"
        : shape.passes         ? "s that skip unused tiles"
        : shape.consumers == 1 ? ""
                               : "s",
        shape.stages, shape.q_stages);
    if (config.splits > 1) text += fmt::format(", keys split {} ways", config.splits);
    return text;
  }
  void run(const Problem& problem, void* workspace) const { launch_forward(*this, params_of(problem), workspace); }
};

}  // namespace

}  // namespace sm90

Plan plan_sm90_forward(const Problem& problem) {
  if (problem.max_seqlen_q * problem.group <= sm90::kDecodeRows) return plan_sm90_decode(problem);
  if (std::string reason = sm90::forward_refusal(problem); !reason.empty()) return Plan(std::move(reason));
  const sm90::ForwardFacts facts{.d = static_cast<int>(problem.d),
                                 .dv = static_cast<int>(problem.dv),
                                 .heads = problem.batch * problem.heads_q,
                                 .max_seqlen_q = problem.max_seqlen_q,
                                 .max_seqlen_k = problem.max_seqlen_k,
                                 .window = sm90::window_of(problem),
                                 .multiprocessors = problem.gpu.multiprocessors,
                                 .uneven = sm90::is_uneven(problem),
                                 .drops = sm90::drops(problem),
                                 .alibi = problem.alibi_slopes != nullptr,
                                 .bias = problem.has_bias};
  const sm90::ForwardPlan launch{{.config = sm90::config_of(facts),
                                  .dtype = problem.dtype,
                                  .uneven = facts.uneven,
                                  .rows = rows_of(problem),
                                  .multiprocessors = facts.multiprocessors,
                                  .stream = problem.stream}};
  if (std::string reason = sm90::shared_refusal(problem, launch.config.shared_bytes); !reason.empty()) {
    return Plan(std::move(reason));
  }
  return Plan(launch, sm90::bytes_with_flash2(problem, sm90::forward_workspace_bytes(launch)));
}

}  // namespace strobe::cuda
