// The choice of a forward pass's instance.
#include "attention/cuda/sm80/forward/launch.h"

#include "device/cuda/start_kernel.h"

namespace strobe::cuda::sm80 {

void launch_forward(ForwardLaunch launch, std::int64_t rows, void* workspace) {
  const ForwardConfig& config = launch.config;
  ForwardArgs& args = launch.args;
  args.stages = config.stages;
  args.packed_heads = config.packed_heads;
  args.row_tiles = static_cast<std::int32_t>(
      (std::int64_t{args.params.max_q} * config.packed_heads + config.shape.rows - 1) / config.shape.rows);
  args.splits = splits_in(workspace, config.splits, rows, config.d);
  switch (config.d) {
    case 32: launch_forward_tiles<32>(launch); break;
    case 64: launch_forward_tiles<64>(launch); break;
    case 96: launch_forward_tiles<96>(launch); break;
    case 128: launch_forward_tiles<128>(launch); break;
    case 192: launch_forward_tiles<192>(launch); break;
    default: launch_forward_tiles<256>(launch); break;
  }
  combine_splits(args.params, args.splits, launch.dtype, launch.stream, Waits::in_launch);
}

}  // namespace strobe::cuda::sm80
