// Plan, workspace and kernel sequence of flash2's backward on CUDA.
#include "attention/cuda/sm80/backward/launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "attention/cuda/fp32/launch.h"
#include "attention/cuda/problem.h"
#include "attention/kernel_list.h"
#include "core/divide.h"
#include "device/cuda/check.h"

namespace strobe::cuda {

namespace sm80 {

namespace {

constexpr std::size_t whole(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

bool is_general(const Problem& p) {
  return has_few_keys(p) || p.has_mask || !bias_takes_vectors(p) ||
         !all_in_vectors(p.q, p.k, p.v, p.d_o, p.dq, p.dk, p.dv_out);
}

BackwardConfig config_of(const Problem& problem, bool general) {
  return backward_config({.fp32 = problem.dtype == DType::fp32,
                          .tf32 = problem.tf32,
                          .d = static_cast<int>(problem.d),
                          .dv = static_cast<int>(problem.dv),
                          .options = has_score_options(problem),
                          .bias = problem.has_bias,
                          .general = general,
                          .shared_bytes_per_block = problem.gpu.shared_bytes_per_block});
}

// Selects how to compute dbias. If all rows share one row of dbias, dbias has too few elements for concurrent additions
// by all blocks.
DbiasBy dbias_by(const DbiasShape& shape, const Problem& problem) {
  const bool one_row = shape.rows < problem.max_seqlen_q;
  if (shape.batch == problem.batch && shape.heads == problem.heads_q && !one_row) return DbiasBy::stored;
  return problem.deterministic || one_row ? DbiasBy::summed : DbiasBy::added;
}

// Plans dbias. If a separate kernel sums it, chooses enough parts to fill the GPU.
void plan_dbias(const BackwardConfig& config, const Problem& problem, BackwardTiles& tiles) {
  const auto size = [&](std::size_t i) { return static_cast<std::int32_t>(problem.dbias.shape[i]); };
  const DbiasShape shape{size(0), size(1), size(2), size(3)};
  tiles.dbias = shape;
  tiles.dbias_by = dbias_by(shape, problem);
  if (tiles.dbias_by != DbiasBy::summed) return;
  const std::int64_t row_tiles = ceil_div(shape.rows, config.shape.rows);
  const std::int64_t blocks = std::int64_t{shape.batch} * shape.heads * row_tiles * tiles.key_tiles;
  if (blocks == 0) return;
  const std::int64_t all = problem.batch * problem.heads_q * tiles.row_tiles * tiles.key_tiles;
  // Two blocks per multiprocessor; each part has at least one tile of scores.
  const std::int64_t parts = std::min(2 * problem.gpu.multiprocessors / blocks, all / blocks);
  tiles.dbias_parts = static_cast<std::int32_t>(std::max<std::int64_t>(parts, 1));
}

BackwardTiles tiles_of(const BackwardConfig& config, const Problem& problem) {
  BackwardTiles tiles;
  tiles.deterministic = problem.deterministic;
  tiles.exact_delta = problem.dropout.p != 0 || has_few_keys(problem);
  tiles.has_row_sums = problem.dtype == DType::fp32 || problem.has_bias || tiles.exact_delta;
  cut_into_tiles(config, problem, tiles);
  if (problem.wants_dbias) plan_dbias(config, problem, tiles);
  return tiles;
}

template <class Body>
void with_dim(int d, Body&& body) {
  switch (d) {
    case 32: return body(BackwardKernels<32>());
    case 64: return body(BackwardKernels<64>());
    case 96: return body(BackwardKernels<96>());
    case 128: return body(BackwardKernels<128>());
    case 192: return body(BackwardKernels<192>());
    default: return body(BackwardKernels<256>());
  }
}

// Launches the kernels without scales, which compute the problem if *args.spread is nonzero. Both kinds of kernels use
// the same dQ sum.
void launch_exact(BackwardLaunch launch, const Problem& problem) {
  launch.config = exact_config(launch.config.d);
  cut_into_tiles(launch.config, problem, launch.args);
  launch.args.work_counter = launch.args.dq_semaphore + all_row_tiles(launch.args, launch.args.params);
  with_dim(launch.config.d, [&](auto kernels) { kernels.launch_tiles(launch); });
}

void launch_all(const BackwardLaunch& launch, const Problem& problem) {
  const BackwardArgs& args = launch.args;
  if (args.spread) launch_spread(launch);
  launch_delta(launch);
  if (args.has_row_sums) with_dim(launch.config.d, [&](auto kernels) { kernels.launch_row_sums(launch); });
  const bool summed = args.dbias_by == DbiasBy::summed;
  if (args.dbias_by != DbiasBy::nothing && !summed) launch_zero_dbias(launch);
  with_dim(launch.config.d, [&](auto kernels) { kernels.launch_tiles(launch); });
  if (args.spread) launch_exact(launch, problem);
  if (summed) {
    with_dim(launch.config.d, [&](auto kernels) { kernels.launch_dbias(launch); });
    if (args.dbias_parts > 1) launch_add_dbias(launch);
  }
  if (args.params.dsinks) launch_dsinks(launch);
}

struct BackwardPlan {
  BackwardConfig config;
  BackwardTiles tiles;
  BackwardWorkspace bytes;

  std::string text(const Problem&) const {
    const char* kind = config.kind == BackwardKind::plain     ? "plain"
                       : config.kind == BackwardKind::options ? "options"
                                                              : "general";
    return fmt::format("mma.sync, {}, head dimension {}, tiles of {} rows x {} keys, {} warps, {} stages, dQ {}{}{}",
                       kind, config.d, config.shape.rows, config.shape.keys, config.shape.warps, config.stages,
                       tiles.deterministic ? "added in order" : "added in any order", text_of(config.split_format),
                       has_scales(config.split_format) ? ", or 3xBF16 if magnitudes of rows differ too much" : "");
  }

  void run(const Problem& problem, void* workspace) const {
    BackwardLaunch launch{.config = config, .dtype = problem.dtype, .stream = problem.stream, .args = {}};
    BackwardArgs& args = launch.args;
    static_cast<BackwardTiles&>(args) = tiles;
    args.params = backward_params_of(problem);
    auto* at = static_cast<char*>(workspace);
    args.dq_sum = reinterpret_cast<float*>(at);
    args.dq_semaphore = reinterpret_cast<std::uint32_t*>(at + bytes.dq_sum);
    args.work_counter = args.dq_semaphore + all_row_tiles(tiles, args.params);
    at += bytes.dq_sum + bytes.dq_semaphore;
    if (bytes.spread) args.spread = reinterpret_cast<std::uint32_t*>(at);
    at += bytes.spread;
    if (bytes.row_facts) args.row_facts = reinterpret_cast<RowFacts*>(at);
    args.delta = reinterpret_cast<float*>(at + bytes.row_facts);
    if (args.has_row_sums) args.log2_sums = args.delta + bytes.delta / sizeof(float);
    args.dbias_sums = reinterpret_cast<float*>(static_cast<char*>(workspace) + bytes.total() - bytes.dbias_sums);
    STROBE_CUDA_CHECK(cudaMemsetAsync(workspace, 0, bytes.dq_sum + bytes.dq_semaphore + bytes.spread,
                                      static_cast<cudaStream_t>(launch.stream)));
    launch_all(launch, problem);
  }
};

BackwardPlan plan_of(const Problem& problem, bool general) {
  BackwardPlan plan;
  plan.config = config_of(problem, general);
  plan.tiles = tiles_of(plan.config, problem);
  plan.bytes = backward_workspace(plan.config, plan.tiles, problem);
  return plan;
}

}  // namespace

std::int64_t all_row_tiles(const BackwardTiles& tiles, const SequenceParams& p) {
  return p.packed ? p.heads_q * tiles.tiles_per_head : std::int64_t{p.batch} * p.heads_q * tiles.row_tiles;
}

void cut_into_tiles(const BackwardConfig& config, const Problem& problem, BackwardTiles& tiles) {
  tiles.stages = config.stages;
  tiles.row_tiles = static_cast<std::int32_t>(ceil_div(problem.max_seqlen_q, config.shape.rows));
  tiles.key_tiles = static_cast<std::int32_t>(ceil_div(problem.max_seqlen_k, config.shape.keys));
  tiles.tiles_per_head = problem.total_q / config.shape.rows + problem.batch;
}

BackwardWorkspace backward_workspace(const BackwardConfig& config, const BackwardTiles& cut, const Problem& problem) {
  const auto rows = static_cast<std::size_t>(rows_of(problem));
  const auto tiles = static_cast<std::size_t>(all_row_tiles(cut, sequence_params_of(problem)));
  BackwardWorkspace workspace;
  workspace.delta = whole(rows * sizeof(float));
  workspace.log2_sums = cut.has_row_sums ? workspace.delta : 0;
  workspace.row_facts = problem.dtype == DType::fp32 ? rows * sizeof(RowFacts) : 0;
  workspace.dq_sum = tiles * static_cast<std::size_t>(config.shape.rows * config.d) * sizeof(float);
  workspace.dq_semaphore = cut.deterministic ? whole((tiles + 1) * sizeof(std::uint32_t)) : 0;
  if (has_scales(config.split_format)) {
    const BackwardConfig exact = exact_config(config.d);
    BackwardTiles exact_cut = cut;
    cut_into_tiles(exact, problem, exact_cut);
    const BackwardWorkspace other = backward_workspace(exact, exact_cut, problem);
    workspace.dq_sum = std::max(workspace.dq_sum, other.dq_sum);
    workspace.dq_semaphore = std::max(workspace.dq_semaphore, other.dq_semaphore);
    workspace.spread = whole(sizeof(std::uint32_t));
  }
  if (cut.dbias_parts > 1) {
    workspace.dbias_sums = whole(static_cast<std::size_t>(cut.dbias_parts * cut.dbias.elements()) * sizeof(float));
  }
  return workspace;
}

}  // namespace sm80

Plan plan_sm80_backward(const Problem& problem) {
  if (std::string reason = tiled_refusal(problem); !reason.empty()) return Plan(std::move(reason));
  const sm80::BackwardPlan plan = sm80::plan_of(problem, sm80::is_general(problem));
  if (plan.config.shared_bytes > problem.gpu.shared_bytes_per_block) {
    if (problem.dtype == DType::fp32) return fp32::plan(problem);
    return Plan(shared_bytes_refusal(problem, plan.config.shared_bytes));
  }
  std::size_t most = plan.bytes.total();
  if (!outputs_are_known(problem)) {  // then the alignment of rows is unknown too: reserve enough for both cases
    for (const bool general : {has_few_keys(problem) || problem.has_mask, true}) {
      most = std::max(most, sm80::plan_of(problem, general).bytes.total());
    }
  }
  return Plan(plan, most);
}

}  // namespace strobe::cuda
