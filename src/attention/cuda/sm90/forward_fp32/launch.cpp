// From a problem's parameters to the instance for its head dimension.
#include "attention/cuda/sm90/forward_fp32/launch.h"

#include "attention/cuda/sm90/forward/order.h"
#include "device/cuda/check.h"
#include "device/cuda/start_kernel.h"

namespace strobe::cuda::sm90 {

namespace {

constexpr double kLog2Of_e = 1.4426950408889634;

Fp32ForwardArgs args_of(const Fp32ForwardLaunch& launch, const Params& params, void* workspace) {
  const Fp32Config& config = launch.config;
  Fp32ForwardArgs args;
  args.params = Fp32ForwardParams(params);
  args.order = forward_order(params, rows_of(config.shape), config.splits);
  args.factor = static_cast<float>(params.scale * kLog2Of_e);
  args.natural = static_cast<float>(static_cast<double>(params.scale) / args.factor);
  if (config.splits > 1) {
    char* const partial = static_cast<char*>(workspace) + kForwardCounterBytes;
    args.splits = splits_in(partial, config.splits, launch.rows, config.d);
  }
  if (by_counter(args.order, launch.uneven, launch.multiprocessors)) {
    args.order.section = forward_section(params, 4);
    args.order.next = static_cast<std::uint32_t*>(workspace);
    STROBE_CUDA_CHECK(cudaMemsetAsync(workspace, 0, sizeof(std::uint32_t), static_cast<cudaStream_t>(launch.stream)));
  }
  return args;
}

}  // namespace

std::size_t fp32_forward_workspace_bytes(const Fp32ForwardLaunch& launch) {
  const std::size_t partial = splits_bytes(launch.config.splits, launch.rows, launch.config.d);
  return launch.uneven || partial > 0 ? kForwardCounterBytes + partial : 0;
}

void launch_fp32_forward(const Fp32ForwardLaunch& launch, const Params& params, void* workspace) {
  const Fp32ForwardArgs args = args_of(launch, params, workspace);
  const auto tiles = launch.config.d == 64 ? launch_fp32_forward_tiles<64> : launch_fp32_forward_tiles<128>;
  tiles(launch, args);
  combine_splits(params, args.splits, DType::fp32, launch.stream, Waits::in_kernel);
}

}  // namespace strobe::cuda::sm90
