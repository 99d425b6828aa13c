// From a problem's parameters to the instance for its head dimensions.
#include "attention/cuda/sm90/forward/launch.h"

#include <cstring>

#include "attention/cuda/sm90/forward/order.h"
#include "attention/cuda/sm90/tensor_map.h"
#include "device/cuda/check.h"
#include "device/cuda/start_kernel.h"

namespace strobe::cuda::sm90 {

ForwardArgs begin_forward(const ForwardLaunch& launch, const Params& params, void* workspace) {
  const ForwardConfig& config = launch.config;
  ForwardArgs args;
  args.params = ForwardParams(params);
  args.q = tensor_map(params.q, q_sizes(params), rows_of(config.shape));
  args.k = tensor_map(params.k, k_sizes(params), config.shape.keys);
  args.v = tensor_map(params.v, v_sizes(params), config.shape.keys);
  args.order = forward_order(params, rows_of(config.shape), config.splits);
  if (config.splits > 1) {
    char* const partial = static_cast<char*>(workspace) + kForwardCounterBytes;
    args.splits = splits_in(partial, config.splits, launch.rows, config.dims.dv);
  }
  if (by_counter(args.order, launch.uneven, launch.multiprocessors)) {
    args.order.section = forward_section(params, 2);
    args.order.next = static_cast<std::uint32_t*>(workspace);
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
  const auto tiles = launch.config.dims.d == 64 ? launch_dropping_tiles<64> : launch_dropping_tiles<128>;
  tiles(launch, dropping);
}

}  // namespace

void launch_forward(const ForwardLaunch& launch, const Params& params, void* workspace) {
  const ForwardArgs args = begin_forward(launch, params, workspace);
  if (params.dropout_threshold != 0) {
    launch_dropping(launch, args, params);
  } else {
    launch_plain(launch, args);
  }
  combine_splits(params, args.splits, launch.dtype, launch.stream, Waits::in_kernel);
}

}  // namespace strobe::cuda::sm90
