// From a problem's parameters to the instance for its head dimensions.
#include "attention/cuda/sm90/forward/launch.h"

#include <algorithm>

#include "attention/cuda/sm90/tensor_map.h"
#include "device/cuda/check.h"

namespace strobe::cuda::sm90 {

namespace {

constexpr std::int64_t kSectionBytes = 32 << 20;  // of K and V, in the L2 cache beside what streams past

TileOrder order_of(const Params& p, int tile_rows) {
  TileOrder order;
  order.heads = static_cast<std::uint32_t>(p.heads_q);
  order.tiles = static_cast<std::uint32_t>((p.max_q + tile_rows - 1) / tile_rows);
  order.units = static_cast<std::uint32_t>(p.batch) * order.heads;
  return order;
}

// Heads whose K and V the cache holds.
std::uint32_t section_of(const Params& p) {
  const std::int64_t bytes = std::max<std::int64_t>(1, std::int64_t{p.max_k} * (p.d + p.dv_dim) * 2);
  const std::int64_t all = std::int64_t{p.batch} * p.heads_kv;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(kSectionBytes / bytes, 1, all) * p.group);
}

}  // namespace

ForwardArgs begin_forward(const ForwardLaunch& launch, const Params& params, void* workspace) {
  const ForwardConfig& config = launch.config;
  ForwardArgs args;
  args.params = params;
  args.q = tensor_map(params.q, q_sizes(params), rows_of(config.shape));
  args.k = tensor_map(params.k, k_sizes(params), config.shape.keys);
  args.v = tensor_map(params.v, v_sizes(params), config.shape.keys);
  args.order = order_of(params, rows_of(config.shape));
  if (launch.uneven) {
    args.order.section = section_of(params);
    args.order.next = static_cast<std::uint32_t*>(workspace);
    STROBE_CUDA_CHECK(cudaMemsetAsync(workspace, 0, sizeof(std::uint32_t), static_cast<cudaStream_t>(launch.stream)));
  }
  return args;
}

void launch_forward(const ForwardLaunch& launch, const Params& params, void* workspace) {
  const ForwardConfig& config = launch.config;
  const ForwardArgs args = begin_forward(launch, params, workspace);
  if (config.dims.d == 64) return launch_forward_tiles<64, 64>(launch, args);
  if (config.dims.d == 96) return launch_forward_tiles<96, 96>(launch, args);
  if (config.dims.d == 128) return launch_forward_tiles<128, 128>(launch, args);
  if (config.dims.d == 256) return launch_forward_tiles<256, 256>(launch, args);
  if (config.dims.dv == 128) return launch_forward_tiles<192, 128>(launch, args);
  launch_forward_tiles<192, 192>(launch, args);
}

}  // namespace strobe::cuda::sm90
