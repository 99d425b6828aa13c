// Workspace of a Hopper backward for fp32 and the order of its kernels.
#include "attention/cuda/sm90/backward_fp32/launch.h"

#include <algorithm>
#include <type_traits>

#include "attention/cuda/sm80/backward/launch.h"
#include "attention/cuda/sm90/backward/tile_count.h"
#include "attention/cuda/sm90/sections.h"
#include "attention/cuda/zero.h"

namespace strobe::cuda::sm90 {

namespace {

constexpr std::int64_t kElementBytes = 4 + 4 + 4;  // of the sum of dQ, of Q and of dO, in parts

constexpr std::size_t whole(std::size_t bytes) { return (bytes + 127) / 128 * 128; }

// flash2's launch with three parts: it finds the facts of rows and takes over where one scale a tile does not do.
sm80::BackwardLaunch exact_launch(const BackwardLaunch& launch, const BackwardParams& params) {
  sm80::BackwardLaunch exact{
      .config = sm80::exact_config(launch.config.d), .dtype = DType::fp32, .stream = launch.stream, .args = {}};
  exact.args.params = params;
  exact.args.deterministic = launch.deterministic;
  exact.args.has_row_sums = true;
  sm80::backward_tiles(exact.config, exact.args);
  return exact;
}

// Bytes of the parts, in their order; the first three begin as zeros.
struct Workspace {
  std::size_t dq_sum, counters, spread;
  std::size_t row_facts, delta, log2_sums;
  std::size_t of_rows, of_keys;  // parts of a tensor, two of each
  std::size_t row_scales, key_scales;

  Workspace(const BackwardLaunch& launch, const BackwardParams& p) {
    const sm80::BackwardLaunch exact = exact_launch(launch, p);
    const sm80::BackwardWorkspace other = sm80::backward_workspace(exact.config, exact.args, DType::fp32);
    const BackwardShape& shape = launch.config.shape;
    const auto rows = static_cast<std::size_t>(row_tiles(p, shape.rows).all),
               keys = static_cast<std::size_t>(key_tiles(p, shape.keys).all);
    of_rows = rows * static_cast<std::size_t>(shape.rows) * fp32_part_bytes(launch.config.d);
    of_keys = keys * static_cast<std::size_t>(shape.keys) * fp32_part_bytes(launch.config.d);
    dq_sum = whole(std::max(other.dq_sum, of_rows));  // a sum has as many bytes as two parts
    counters = whole(std::max(other.turns, (1 + (launch.deterministic ? rows : 0)) * sizeof(std::uint32_t)));
    spread = whole(sizeof(std::uint32_t));
    row_facts = whole(other.row_facts), delta = whole(other.delta), log2_sums = whole(other.log2_sums);
    row_scales = whole(rows * 2 * sizeof(float)), key_scales = whole(keys * 2 * sizeof(float));
  }
  std::size_t zeros() const { return dq_sum + counters + spread; }
  std::size_t total() const {
    return zeros() + row_facts + delta + log2_sums + 2 * (of_rows + of_keys) + row_scales + key_scales;
  }
};

}  // namespace

std::size_t fp32_backward_workspace_bytes(const BackwardLaunch& launch, const BackwardParams& params) {
  return Workspace(launch, params).total();
}

void launch_fp32_backward(const BackwardLaunch& launch, const BackwardParams& params, void* workspace) {
  const Workspace bytes(launch, params);
  const BackwardShape& shape = launch.config.shape;
  const TileCount rows = row_tiles(params, shape.rows), keys = key_tiles(params, shape.keys);
  sm80::BackwardLaunch exact = exact_launch(launch, params);
  Fp32SplitArgs args;
  auto* at = static_cast<unsigned char*>(workspace);
  const auto take = [&](auto*& to, std::size_t size) {
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(at);
    at += size;
  };
  std::uint32_t* counters = nullptr;
  take(args.dq_sum, bytes.dq_sum);
  take(counters, bytes.counters);
  take(args.parts.spread, bytes.spread);
  take(exact.args.row_facts, bytes.row_facts);
  take(exact.args.delta, bytes.delta);
  take(exact.args.log2_sums, bytes.log2_sums);
  take(args.parts.q, bytes.of_rows);
  take(args.parts.d_o, bytes.of_rows);
  take(args.parts.k, bytes.of_keys);
  take(args.parts.v, bytes.of_keys);
  take(args.parts.row_scales, bytes.row_scales);
  take(args.parts.key_scales, bytes.key_scales);

  // Only one of the two adds to dQ and counts.
  exact.args.dq_sum = args.dq_sum;
  exact.args.spread = args.parts.spread;
  exact.args.turns = counters;
  exact.args.ticket = counters + row_tiles(params, exact.config.shape.rows).all;
  if (!launch.deterministic) exact.args.ticket = counters;
  args.ticket = launch.deterministic ? counters + rows.all : counters;
  args.turns = launch.deterministic ? counters : nullptr;

  args.params = params;
  args.row_tiles = static_cast<std::int32_t>(rows.of_sequence);
  args.tiles_per_head = rows.of_head;
  args.key_tiles = static_cast<std::int32_t>(keys.of_sequence);
  args.parts.key_tiles_per_head = keys.of_head;
  args.section_heads = static_cast<std::int32_t>(section_heads(
      std::int64_t{params.batch} * params.heads_kv,
      std::int64_t{params.max_q} * params.group * launch.config.d * kElementBytes, kBackwardSectionBytes));
  args.facts = exact.args.row_facts;
  args.q = params.q, args.k = params.k, args.v = params.v, args.d_o = params.d_o, args.lse = params.lse;
  args.dq = params.dq, args.dk = params.dk, args.dv = params.dv;

  zero_async(workspace, bytes.zeros(), launch.stream);
  if (launch.config.d == 64) {
    sm80::launch_row_sums<64>(exact);
    launch_fp32_backward_kernels<64>(launch, args);
    sm80::launch_backward_tiles<64>(exact);
  } else {
    sm80::launch_row_sums<128>(exact);
    launch_fp32_backward_kernels<128>(launch, args);
    sm80::launch_backward_tiles<128>(exact);
  }
}

}  // namespace strobe::cuda::sm90
