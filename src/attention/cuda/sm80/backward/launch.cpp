// Workspace of a backward pass and the order of its kernels.
#include "attention/cuda/sm80/backward/launch.h"

#include <algorithm>

#include "attention/cuda/zero.h"
#include "core/divide.h"

namespace strobe::cuda::sm80 {

namespace {

constexpr std::size_t whole(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

std::int64_t all_row_tiles(const BackwardArgs& args) {
  const BackwardParams& p = args.params;
  return p.packed ? p.heads_q * args.tiles_per_head : std::int64_t{p.batch} * p.heads_q * args.row_tiles;
}

// A row of dbias that all rows share has too few elements to be added to by all of them.
DbiasBy dbias_by(const BackwardArgs& args) {
  const BackwardParams& p = args.params;
  const bool one_row = args.dbias.rows < p.max_q;
  if (args.dbias.batch == p.batch && args.dbias.heads == p.heads_q && !one_row) return DbiasBy::stored;
  return args.deterministic || one_row ? DbiasBy::summed : DbiasBy::added;
}

template <class Body>
void with_dim(int d, Body&& body) {
  switch (d) {
    case 32: return body.template operator()<32>();
    case 64: return body.template operator()<64>();
    case 96: return body.template operator()<96>();
    case 128: return body.template operator()<128>();
    case 192: return body.template operator()<192>();
    default: return body.template operator()<256>();
  }
}

// The same launch by the kernels that take over where rows differ too much in size; dQ is summed in the same place.
BackwardLaunch exact_launch(BackwardLaunch launch) {
  launch.config = exact_config(launch.config.d);
  backward_tiles(launch.config, launch.args);
  return launch;
}

}  // namespace

void backward_tiles(const BackwardConfig& config, BackwardArgs& args) {
  const BackwardParams& p = args.params;
  args.stages = config.stages;
  args.row_tiles = static_cast<std::int32_t>(ceil_div(p.max_q, config.shape.rows));
  args.key_tiles = static_cast<std::int32_t>(ceil_div(p.max_k, config.shape.keys));
  args.tiles_per_head = p.total_q / config.shape.rows + p.batch;
}

void plan_dbias(const BackwardConfig& config, const DbiasShape& shape, int multiprocessors, BackwardArgs& args) {
  args.dbias = shape;
  args.dbias_by = dbias_by(args);
  if (args.dbias_by != DbiasBy::summed) return;
  const BackwardParams& p = args.params;
  const std::int64_t tiles = ceil_div(shape.rows, config.shape.rows);
  const std::int64_t blocks = std::int64_t{shape.batch} * shape.heads * tiles * args.key_tiles;
  if (blocks == 0) return;
  const std::int64_t all = std::int64_t{p.batch} * p.heads_q * args.row_tiles * args.key_tiles;
  // Two blocks for each multiprocessor; a part has at least one tile of scores.
  const std::int64_t parts = std::min(2 * multiprocessors / blocks, all / blocks);
  args.dbias_parts = static_cast<std::int32_t>(std::max<std::int64_t>(parts, 1));
}

BackwardWorkspace backward_workspace(const BackwardConfig& config, const BackwardArgs& args, DType dtype) {
  const BackwardParams& p = args.params;
  const auto rows = static_cast<std::size_t>(std::int64_t{p.packed ? 1 : p.batch} * p.heads_q * p.total_q);
  const auto tiles = static_cast<std::size_t>(all_row_tiles(args));
  BackwardWorkspace workspace;
  workspace.delta = whole(rows * sizeof(float));
  workspace.log2_sums = args.has_row_sums ? workspace.delta : 0;
  workspace.row_facts = dtype == DType::fp32 ? rows * sizeof(RowFacts) : 0;
  workspace.dq_sum = tiles * static_cast<std::size_t>(config.shape.rows * config.d) * sizeof(float);
  workspace.turns = args.deterministic ? whole((tiles + 1) * sizeof(std::uint32_t)) : 0;
  if (has_scales(config.parts)) {
    const BackwardLaunch exact = exact_launch({.config = config, .args = args});
    const BackwardWorkspace other = backward_workspace(exact.config, exact.args, dtype);
    workspace.dq_sum = std::max(workspace.dq_sum, other.dq_sum);
    workspace.turns = std::max(workspace.turns, other.turns);
    workspace.spread = whole(sizeof(std::uint32_t));
  }
  if (args.dbias_parts > 1) {
    workspace.dbias_sums = whole(static_cast<std::size_t>(args.dbias_parts * args.dbias.elements()) * sizeof(float));
  }
  return workspace;
}

void launch_backward(BackwardLaunch launch, void* workspace) {
  BackwardArgs& args = launch.args;
  const BackwardWorkspace bytes = backward_workspace(launch.config, args, launch.dtype);
  auto* at = static_cast<char*>(workspace);
  args.dq_sum = reinterpret_cast<float*>(at);
  args.turns = reinterpret_cast<std::uint32_t*>(at + bytes.dq_sum);
  args.ticket = args.turns + all_row_tiles(args);
  at += bytes.dq_sum + bytes.turns;
  if (bytes.spread) args.spread = reinterpret_cast<std::uint32_t*>(at);
  at += bytes.spread;
  if (bytes.row_facts) args.row_facts = reinterpret_cast<RowFacts*>(at);
  args.delta = reinterpret_cast<float*>(at + bytes.row_facts);
  if (args.has_row_sums) args.log2_sums = args.delta + bytes.delta / sizeof(float);
  args.dbias_sums = reinterpret_cast<float*>(static_cast<char*>(workspace) + bytes.total() - bytes.dbias_sums);
  zero_async(workspace, bytes.dq_sum + bytes.turns + bytes.spread, launch.stream);
  if (args.spread) launch_spread(launch);
  launch_delta(launch);
  if (args.has_row_sums) with_dim(launch.config.d, [&]<int kD>() { launch_row_sums<kD>(launch); });
  const bool summed = args.dbias_by == DbiasBy::summed;
  if (args.dbias_by != DbiasBy::nothing && !summed) launch_zero_dbias(launch);
  with_dim(launch.config.d, [&]<int kD>() { launch_backward_tiles<kD>(launch); });
  if (args.spread) {
    BackwardLaunch exact = exact_launch(launch);
    exact.args.ticket = args.turns + all_row_tiles(exact.args);
    with_dim(exact.config.d, [&]<int kD>() { launch_backward_tiles<kD>(exact); });
  }
  if (summed) {
    with_dim(launch.config.d, [&]<int kD>() { launch_dbias<kD>(launch); });
    if (args.dbias_parts > 1) launch_add_dbias(launch);
  }
  if (args.params.dsinks) launch_dsinks(launch);
}

}  // namespace strobe::cuda::sm80
