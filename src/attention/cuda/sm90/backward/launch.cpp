// Workspace of a Hopper backward.
#include "attention/cuda/sm90/backward/launch.h"

#include <algorithm>

#include "attention/cuda/sm90/tensor_map.h"

namespace strobe::cuda::sm90 {

namespace {

constexpr std::int64_t kSectionBytes = 24
                                       << 20;  // of what tiles of keys share: the sum of dQ, Q and dO; of 50 MB of L2

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::size_t whole(std::size_t bytes) { return (bytes + 127) / 128 * 128; }

std::int32_t section_heads(const Params& p, int d) {
  const std::int64_t bytes = std::max<std::int64_t>(1, std::int64_t{p.max_q} * p.group * d * (4 + 2 + 2));
  const std::int64_t all = std::int64_t{p.batch} * p.heads_kv;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(kSectionBytes / bytes, 1, std::max<std::int64_t>(1, all)));
}

// Everything but the tensor maps and the pointers.
BackwardArgs planned(const BackwardLaunch& launch, const Params& p) {
  BackwardArgs args{};
  args.params = p;
  args.row_tiles = static_cast<std::int32_t>(ceil_div(p.max_q, launch.config.shape.rows));
  args.key_tiles = static_cast<std::int32_t>(ceil_div(p.max_k, launch.config.shape.keys));
  args.tiles_per_head = p.total_q / launch.config.shape.rows + p.batch;
  args.section_heads = section_heads(p, launch.config.d);
  args.deterministic = launch.deterministic;
  return args;
}

// Bytes of the parts, in their order.
struct Workspace {
  std::size_t dq_sum = 0, counters = 0, row_facts = 0;
  std::size_t tiles = 0;  // of rows
  std::size_t total() const { return dq_sum + counters + row_facts; }
};

Workspace workspace_of(const BackwardLaunch& launch, const BackwardArgs& args) {
  const Params& p = args.params;
  const auto rows = static_cast<std::size_t>(launch.config.shape.rows), d = static_cast<std::size_t>(launch.config.d);
  Workspace bytes;
  bytes.tiles = static_cast<std::size_t>(p.packed ? p.heads_q * args.tiles_per_head
                                                  : std::int64_t{p.batch} * p.heads_q * args.row_tiles);
  bytes.dq_sum = bytes.tiles * rows * d * sizeof(float);
  bytes.counters = whole((launch.deterministic ? bytes.tiles + 1 : 1) * sizeof(std::uint32_t));
  bytes.row_facts = bytes.tiles * 2 * rows * sizeof(float);
  return bytes;
}

}  // namespace

std::size_t backward_workspace_bytes(const BackwardLaunch& launch, const Params& params) {
  return workspace_of(launch, planned(launch, params)).total();
}

void launch_backward(const BackwardLaunch& launch, const Params& params, void* workspace) {
  const BackwardShape& shape = launch.config.shape;
  BackwardArgs args = planned(launch, params);
  const Workspace bytes = workspace_of(launch, args);
  auto* at = static_cast<char*>(workspace);
  args.dq_sum = reinterpret_cast<float*>(at);
  args.ticket = reinterpret_cast<std::uint32_t*>(at + bytes.dq_sum);
  args.turns = args.ticket + 1;
  args.row_facts = reinterpret_cast<float*>(at + bytes.dq_sum + bytes.counters);
  args.q = tensor_map(params.q, q_sizes(params), shape.rows);
  args.d_o = tensor_map(params.d_o, o_sizes(params), shape.rows);
  args.k = tensor_map(params.k, k_sizes(params), shape.keys);
  args.v = tensor_map(params.v, v_sizes(params), shape.keys);
  switch (launch.config.d) {
    case 64: return launch_backward_kernels<64>(launch, args);
    case 128: return launch_backward_kernels<128>(launch, args);
    default: return launch_backward_kernels<256>(launch, args);
  }
}

}  // namespace strobe::cuda::sm90
