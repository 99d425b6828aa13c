// Workspace of a Hopper backward.
#include "attention/cuda/sm90/backward/launch.h"

#include "attention/cuda/sm90/backward/tile_count.h"
#include "attention/cuda/sm90/sections.h"
#include "attention/cuda/sm90/tensor_map.h"
#include "attention/problem.h"

namespace strobe::cuda::sm90 {

namespace {

constexpr std::int64_t kElementBytes = 4 + 2 + 2;  // of the sum of dQ, of Q and of dO

constexpr std::size_t whole(std::size_t bytes) { return (bytes + 127) / 128 * 128; }

// Bytes of the parts, in their order.
struct Workspace {
  std::size_t dq_sum = 0, counters = 0, row_facts = 0;
  std::size_t total() const { return dq_sum + counters + row_facts; }
};

template <class Sizes>
std::int64_t all_heads_kv(const Sizes& p) {
  return std::int64_t{p.batch} * p.heads_kv;
}

// `p` is Params or, before there are any, the Problem.
template <class Sizes>
Workspace workspace_of(const BackwardLaunch& launch, const Sizes& p) {
  const auto rows = static_cast<std::size_t>(launch.config.shape.rows), d = static_cast<std::size_t>(launch.config.d);
  const auto tiles = static_cast<std::size_t>(row_tiles(p, launch.config.shape.rows).all);
  const std::size_t counters = 1 + static_cast<std::size_t>(all_heads_kv(p)) + (launch.deterministic ? tiles : 0);
  return {.dq_sum = tiles * rows * d * sizeof(float),
          .counters = whole(counters * sizeof(std::uint32_t)),
          .row_facts = tiles * 2 * rows * sizeof(float)};
}

RowTilesArgs row_tiles_args(const BackwardLaunch& launch, const Params& p, void* workspace) {
  const Workspace bytes = workspace_of(launch, p);
  const TileCount tiles = row_tiles(p, launch.config.shape.rows);
  auto* const at = static_cast<char*>(workspace);
  RowTilesArgs args;
  args.params = Batch(p);
  args.row_tiles = static_cast<std::int32_t>(tiles.of_sequence);
  args.tiles_per_head = tiles.of_head;
  args.dq_sum = reinterpret_cast<float*>(at);
  args.ticket = reinterpret_cast<std::uint32_t*>(at + bytes.dq_sum);
  args.keys_done = args.ticket + 1;
  args.turns = launch.deterministic ? args.keys_done + all_heads_kv(p) : nullptr;
  args.row_facts = reinterpret_cast<float*>(at + bytes.dq_sum + bytes.counters);
  return args;
}

BackwardArgs backward_args(const BackwardLaunch& launch, const RowTilesArgs& tiles, const Params& p) {
  const BackwardShape& shape = launch.config.shape;
  BackwardArgs args;
  static_cast<RowTilesArgs&>(args) = tiles;
  args.dq = p.dq;
  args.key_tiles = static_cast<std::int32_t>(key_tiles(p, shape.keys).of_sequence);
  args.section_heads = static_cast<std::int32_t>(section_heads(
      all_heads_kv(p), std::int64_t{p.max_q} * p.group * launch.config.d * kElementBytes, kBackwardSectionBytes));
  args.dq_tickets = static_cast<std::uint32_t>(std::int64_t{p.batch} * p.heads_q * tiles.row_tiles);
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

void launch_backward(const BackwardLaunch& launch, const Params& params, void* workspace) {
  const RowTilesArgs tiles = row_tiles_args(launch, params, workspace);
  const RowFactsArgs facts{tiles, params.o, params.d_o, params.lse};
  const auto kernels = launch.config.d == 64    ? launch_backward_kernels<64>
                       : launch.config.d == 128 ? launch_backward_kernels<128>
                                                : launch_backward_kernels<256>;
  kernels(launch, facts, backward_args(launch, tiles, params));
}

}  // namespace strobe::cuda::sm90
