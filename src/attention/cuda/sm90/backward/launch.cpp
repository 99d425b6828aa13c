// Plan, workspace and launch of the Hopper backward for fp16 and bf16.
#include "attention/cuda/sm90/backward/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numbers>
#include <type_traits>

#include "attention/cuda/problem.h"
#include "attention/cuda/sm90/backward/option_gradients.h"
#include "attention/cuda/sm90/backward/tile_count.h"
#include "attention/cuda/sm90/device/tile_scheduler.h"
#include "attention/cuda/sm90/refusal.h"
#include "attention/cuda/sm90/tensor_map.h"
#include "attention/kernel_list.h"
#include "attention/problem.h"
#include "core/divide.h"
#include "device/cuda/check.h"

namespace strobe::cuda {

namespace sm90 {

namespace {

constexpr std::int64_t kElementBytes = 4 + 2 + 2;  // per element: fp32 dQ sum, Q, dO

constexpr std::size_t kRowCounters = 2;  // the two of RowFactsArgs; only these must be zero at the start
// Target number of chunks (RowFactsArgs) per warp of a full GPU: enough to balance the blocks, few enough that the work
// counter costs nothing.
constexpr std::int64_t kChunksPerWarp = 4;

// Rounds up to whole 128-byte cache lines.
constexpr std::size_t whole_lines(std::size_t bytes) { return (bytes + 127) / 128 * 128; }

// Sizes of the workspace's sections in bytes, in this order.
struct Workspace {
  std::size_t dq_sum = 0, counters = 0, row_facts = 0;
  std::size_t total() const { return dq_sum + counters + row_facts; }
};

template <class Sizes>
std::int64_t all_heads_kv(const Sizes& p) {
  return std::int64_t{p.batch} * p.heads_kv;
}

// Sizes: SequenceParams, or Problem while planning.
template <class Sizes>
Workspace workspace_of(const BackwardLaunch& launch, const Sizes& p) {
  const auto rows = static_cast<std::size_t>(launch.config.shape.rows), d = static_cast<std::size_t>(launch.config.d);
  const auto tiles = static_cast<std::size_t>(row_tiles(p, launch.config.shape.rows).all);
  const std::size_t counters =
      kRowCounters + 1 + static_cast<std::size_t>(all_heads_kv(p)) + (launch.deterministic ? tiles : 0);
  return {.dq_sum = tiles * rows * d * sizeof(float),
          .counters = whole_lines(counters * sizeof(std::uint32_t)),
          .row_facts = tiles * static_cast<std::size_t>(row_facts_of(launch.bias)) * rows * sizeof(float)};
}

RowTilesArgs row_tiles_args(const BackwardLaunch& launch, const BackwardParams& p, void* workspace) {
  const Workspace bytes = workspace_of(launch, p);
  const TileCount tiles = row_tiles(p, launch.config.shape.rows);
  auto* const at = static_cast<char*>(workspace);
  RowTilesArgs args;
  args.params = p;
  args.row_tiles = static_cast<std::int32_t>(tiles.of_sequence);
  args.tiles_per_head = tiles.of_head;
  args.dq_sum = reinterpret_cast<float*>(at);
  args.work_counter = reinterpret_cast<std::uint32_t*>(at + bytes.dq_sum) + kRowCounters;
  args.keys_done = args.work_counter + 1;
  args.dq_semaphore = launch.deterministic ? args.keys_done + all_heads_kv(p) : nullptr;
  args.row_facts = reinterpret_cast<float*>(at + bytes.dq_sum + bytes.counters);
  return args;
}

// Arguments for a cooperative launch. launch_backward() sets `work_counter` for other launches.
RowFactsArgs row_facts_args(const BackwardLaunch& launch, std::int64_t tiles, const BackwardParams& p) {
  const std::int64_t strips = tiles * (launch.config.shape.rows / 16);
  const std::int64_t warps = std::int64_t{launch.multiprocessors} * (kBackwardThreads / 32);
  const std::int64_t strips_per_chunk = std::max<std::int64_t>(1, strips / (warps * kChunksPerWarp));
  RowFactsArgs args;
  args.o = p.o;
  args.d_o = p.d_o;
  args.lse = p.lse;
  args.d_lse = static_cast<const float*>(p.d_lse.data);
  args.chunks = static_cast<std::uint32_t>(ceil_div(strips, strips_per_chunk));
  args.strips_of_chunk = static_cast<std::uint32_t>(strips_per_chunk);
  args.strips = strips;
  return args;
}

BackwardArgs backward_args(const BackwardLaunch& launch, const BackwardParams& p, void* workspace) {
  const BackwardShape& shape = launch.config.shape;
  BackwardArgs args;
  static_cast<RowTilesArgs&>(args) = row_tiles_args(launch, p, workspace);
  args.dq = p.dq;
  args.key_tiles = static_cast<std::int32_t>(key_tiles(p, cluster_keys(shape)).of_sequence);
  args.l2_swizzle_heads = static_cast<std::int32_t>(
      l2_swizzle_heads(all_heads_kv(p), std::int64_t{p.max_seqlen_q} * p.group * launch.config.d * kElementBytes,
                       kBackwardL2SwizzleBytes));
  const std::int64_t all_row_tiles = std::int64_t{p.batch} * p.heads_q * args.row_tiles;
  args.rows = row_facts_args(launch, all_row_tiles, p);
  args.dq_work_items = static_cast<std::uint32_t>(all_row_tiles);
  args.dk = p.dk;
  args.dv = p.dv;
  args.q_map = tensor_map(p.q, q_sizes(p), shape.rows);
  args.d_o_map = tensor_map(p.d_o, o_sizes(p), shape.rows);
  args.k_map = tensor_map(p.k, k_sizes(p), shape.keys);
  args.v_map = tensor_map(p.v, v_sizes(p), shape.keys);
  return args;
}

}  // namespace

std::size_t backward_workspace_bytes(const BackwardLaunch& launch, const Problem& problem) {
  return workspace_of(launch, problem).total();
}

namespace {

template <class Args>
auto kernel_for(int d) {
  if constexpr (std::is_same_v<Args, BiasBackwardArgs>) {
    return launch_backward_kernel<kBiasBackwardDim, Args>;
  } else {
    return d == 64    ? launch_backward_kernel<64, Args>
           : d == 128 ? launch_backward_kernel<128, Args>
                      : launch_backward_kernel<256, Args>;
  }
}

template <class Args>
void launch_with(const BackwardLaunch& launch, Args& args) {
  const auto kernel = kernel_for<Args>(launch.config.d);
  const int cluster = cluster_blocks(launch.config.shape);
  const std::int64_t key_tiles = all_heads_kv(args.params) * args.key_tiles;
  const std::int64_t blocks =
      backward_blocks(std::max<std::int64_t>(args.dq_work_items, cluster * key_tiles), cluster, launch.multiprocessors);
  // Clusters never use a cooperative launch, because it has not been measured for them.
  if (cluster == 1 && blocks <= most_together(launch.multiprocessors) && kernel(launch, args, blocks)) return;
  args.rows.work_counter = args.work_counter - kRowCounters;
  STROBE_CUDA_CHECK(cudaMemsetAsync(args.rows.work_counter, 0, kRowCounters * sizeof(std::uint32_t),
                                    static_cast<cudaStream_t>(launch.stream)));
  kernel(launch, args, blocks);
}

void launch_biased(const BackwardLaunch& launch, const BackwardArgs& args, const BackwardParams& p) {
  BiasBackwardArgs biased;
  static_cast<BackwardArgs&>(biased) = args;
  const TensorSizes sizes{p.bias.batch == 0 ? 1 : p.batch, p.bias.head == 0 ? 1 : p.heads_q, p.max_seqlen_q,
                          p.max_seqlen_k};
  biased.bias_map = tensor_map(p.bias, sizes, launch.config.shape.rows);
  biased.bias = p.bias;
  biased.q = p.q;
  biased.k = p.k;
  biased.dbias = p.dbias;
  biased.sinks = p.sinks;
  biased.batch_innermost = p.bias.batch == 0;
  if (p.dbias.data) {
    const bool shares_batch = p.dbias.batch == 0 && p.batch > 1, shares_heads = p.dbias.head == 0 && p.heads_q > 1;
    biased.adds_dbias = shares_batch || shares_heads;
    if (launch.clears_dbias || biased.adds_dbias) {
      const DbiasShape shape{shares_batch ? 1 : p.batch, shares_heads ? 1 : p.heads_q, p.max_seqlen_q, p.max_seqlen_k};
      launch_zero_dbias(p.dbias, shape, launch.stream);
    }
  }
  launch_with(launch, biased);
}

void launch_main(const BackwardLaunch& launch, BackwardArgs& args, const BackwardParams& params) {
  if (params.bias.data) return launch_biased(launch, args, params);
  if (params.alibi_slopes) {
    AlibiBackwardArgs alibi{args, params.alibi_slopes};
    return launch_with(launch, alibi);
  }
  if (params.softcap != 0) {
    CapBackwardArgs capped{args, params.scale / params.softcap, params.softcap * std::numbers::log2e_v<float>};
    return launch_with(launch, capped);
  }
  if (params.dropout_threshold == 0) return launch_with(launch, args);
  DroppingBackwardArgs dropping{args, params.dropout_threshold, params.dropout_scale};
  std::memcpy(dropping.philox_keys, params.philox_keys, sizeof(params.philox_keys));
  launch_with(launch, dropping);
}

}  // namespace

void launch_backward(const BackwardLaunch& launch, const BackwardParams& params, void* workspace) {
  BackwardArgs args = backward_args(launch, params, workspace);
  launch_main(launch, args, params);
  if (!params.dsinks) return;
  launch_dsinks({.tiles = args,
                 .lse = params.lse,
                 .sinks = params.sinks,
                 .dsinks = params.dsinks,
                 .scale = params.dropout_threshold == 0 ? 1 : params.dropout_scale,
                 .rows = launch.config.shape.rows,
                 .facts = row_facts_of(launch.bias)},
                launch.stream);
}

namespace {

// Returns the name of an option that the kernels do not combine with the others, or null.
const char* combination_refused(const Problem& problem) {
  if (problem.softcap != 0) {
    if (drops(problem)) return "a softcap with dropout in the backward pass";
    if (problem.alibi_slopes) return "a softcap with ALiBi in the backward pass";
    if (problem.has_bias) return "a softcap with a bias in the backward pass";
  }
  if (!problem.has_bias) return nullptr;
  if (std::max(problem.d, problem.dv) > kBiasBackwardDim) return "a bias with head dimensions above 128";
  const auto& stride = problem.bias.stride;
  if (stride[2] == 0) return "a bias that all rows share in the backward pass";
  if (*std::min_element(stride.begin(), stride.end()) < 0) return "a bias with negative strides in the backward pass";
  // A workspace query does not know if the caller wants dbias, so this does not depend on it.
  const bool shared = (stride[0] == 0 && problem.batch > 1) || (stride[1] == 0 && problem.heads_q > 1);
  return shared && problem.deterministic ? "a bias that sequences or heads share, with `deterministic`" : nullptr;
}

std::string backward_refusal(const Problem& problem) {
  const char* option = option_refused(problem, drops_with_alibi(problem), ScoreTerms::one);
  if (!option) option = combination_refused(problem);
  if (problem.d_lse && problem.d_lse_stride != problem.lse_stride) option = "a gradient of LSE with strides";
  std::string reason = problem_refusal(problem, option, kMostTiledDim);
  if (reason.empty()) reason = map_refusal("q", problem.q);
  if (reason.empty()) reason = map_refusal("k", problem.k);
  if (reason.empty()) reason = map_refusal("v", problem.v);
  if (reason.empty() && outputs_are_known(problem)) reason = map_refusal("dO", problem.d_o);
  if (reason.empty()) reason = output_refusal(problem);
  if (reason.empty()) reason = tiles_refusal(problem, 64);
  return reason;
}

// Returns the number of rows that an average key sees, for keys as long as the rows.
std::int64_t rows_per_key_of(const Problem& problem) {
  const std::int64_t longest = problem.max_seqlen_q, left = problem.window.left;
  const std::int64_t right = problem.causal ? 0 : problem.window.right;
  if (left < 0 && right < 0) return longest;
  const std::int64_t before = left < 0 ? longest / 2 : std::min(left, longest);
  const std::int64_t after = right < 0 ? longest / 2 : std::min(right, longest);
  return std::min(longest, before + after + 1);
}

struct BackwardPlan : BackwardLaunch {
  std::string text(const Problem&) const { return text_of(*this); }
  void run(const Problem& problem, void* workspace) const {
    launch_backward(*this, backward_params_of(problem), workspace);
  }
};

}  // namespace

std::string text_of(const BackwardLaunch& launch) {
  const BackwardShape& shape = launch.config.shape;
  return fmt::format("wgmma, head dimension {}, tiles of {} rows x {} keys, {} warpgroups{}, {} stages, dQ {}",
                     launch.config.d, shape.rows, cluster_keys(shape), kBackwardConsumers,
                     shape.share == Share::tiles     ? " on alternate tiles"
                     : shape.share == Share::columns ? " per block, clusters of 2 blocks"
                                                     : "",
                     stages_of(shape), launch.deterministic ? "added in order" : "added in any order");
}

}  // namespace sm90

Plan plan_sm90_backward(const Problem& problem) {
  if (std::string reason = sm90::backward_refusal(problem); !reason.empty()) return Plan(std::move(reason));
  const sm90::BackwardFacts facts{
      .d = static_cast<int>(std::max(problem.d, problem.dv)),
      .heads = problem.batch * problem.heads_kv,
      .max_seqlen_k = problem.max_seqlen_k,
      .multiprocessors = problem.gpu.multiprocessors,
      .uneven = sm90::is_uneven(problem),
      .deterministic = problem.deterministic,
      .options = sm90::drops(problem) || problem.alibi_slopes || problem.softcap != 0 || problem.has_bias,
      .bias = problem.has_bias,
      .rows_per_key = sm90::rows_per_key_of(problem)};
  const sm90::BackwardPlan launch{{.config = sm90::backward_config(facts),
                                   .dtype = problem.dtype,
                                   .deterministic = problem.deterministic,
                                   .bias = problem.has_bias,
                                   .clears_dbias = facts.uneven,
                                   .multiprocessors = problem.gpu.multiprocessors,
                                   .stream = problem.stream}};
  if (std::string reason = sm90::shared_refusal(problem, launch.config.shared_bytes); !reason.empty()) {
    return Plan(std::move(reason));
  }
  return Plan(launch, sm90::bytes_with_flash2(problem, sm90::backward_workspace_bytes(launch, problem)));
}

}  // namespace strobe::cuda
