// Workspace of a forward pass and the choice of its instance.
#include "attention/cuda/sm80/forward/launch.h"

namespace strobe::cuda::sm80 {

std::size_t forward_workspace_bytes(const ForwardConfig& config, std::int64_t rows) {
  if (config.splits == 1) return 0;
  return static_cast<std::size_t>(config.splits) * static_cast<std::size_t>(rows) *
         static_cast<std::size_t>(config.d + 1) * sizeof(float);
}

void launch_forward(ForwardLaunch launch, void* workspace) {
  const ForwardConfig& config = launch.config;
  ForwardArgs& args = launch.args;
  args.stages = config.stages;
  args.splits = config.splits;
  args.packed_heads = config.packed_heads;
  args.row_tiles = static_cast<std::int32_t>(
      (std::int64_t{args.params.max_q} * config.packed_heads + config.shape.rows - 1) / config.shape.rows);
  if (config.splits > 1) {
    args.partial_o = static_cast<float*>(workspace);
    args.partial_lse = args.partial_o + config.splits * args.rows * config.d;
  }
  switch (config.d) {
    case 32: launch_forward_tiles<32>(launch); break;
    case 64: launch_forward_tiles<64>(launch); break;
    case 96: launch_forward_tiles<96>(launch); break;
    case 128: launch_forward_tiles<128>(launch); break;
    case 192: launch_forward_tiles<192>(launch); break;
    default: launch_forward_tiles<256>(launch); break;
  }
  if (config.splits > 1) launch_combine(launch);
}

}  // namespace strobe::cuda::sm80
