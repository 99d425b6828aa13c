// How a backward launch is planned from the problem and the card.
#include "attention/cuda/sm80/backward/config.h"

#include <algorithm>

namespace strobe::cuda::sm80 {

namespace {

template <std::size_t kCount>
int padded(const int (&dims)[kCount], int d) {
  for (const int dim : dims) {
    if (d <= dim) return dim;
  }
  return dims[kCount - 1];
}

BackwardConfig planned(BackwardKind kind, int d, const BackwardFacts& facts) {
  BackwardConfig config;
  config.kind = kind;
  config.d = d;
  if (facts.fp32) config.parts = fp32_parts(kind == BackwardKind::plain, facts.tf32);
  config.shape = backward_shape(d, kind, config.parts);
  const std::size_t more = has_scales(config.parts)                      ? backward_scale_bytes(config.shape)
                           : kind == BackwardKind::options && facts.bias ? backward_bias_bytes(config.shape)
                                                                         : 0;
  const auto bytes = [&](int stages) { return backward_shared_bytes(d, config.shape, config.parts, stages) + more; };
  // fp32 is loaded through registers, nothing is in flight.
  config.stages = !facts.fp32 && bytes(2) <= facts.shared_bytes_per_block ? 2 : 1;
  config.shared_bytes = bytes(config.stages);
  return config;
}

}  // namespace

BackwardConfig exact_config(int d) {
  return planned(BackwardKind::general, padded(kBackwardGeneralFp32Dims, d), {.fp32 = true});
}

BackwardConfig backward_config(const BackwardFacts& facts) {
  const int d = std::max(facts.d, facts.dv);
  if (facts.options && !facts.general && !facts.fp32 && d <= 128) {
    const BackwardConfig config = planned(BackwardKind::options, padded(kBackwardOptionsDims, d), facts);
    if (config.shared_bytes <= facts.shared_bytes_per_block) return config;
  }
  if (!facts.options && !facts.general && (!facts.fp32 || d <= 64)) {
    const int dim = facts.fp32 ? padded(kBackwardPlainFp32Dims, d) : padded(kBackwardPlainDims, d);
    const BackwardConfig config = planned(BackwardKind::plain, dim, facts);
    const std::size_t bytes =
        std::max(config.shared_bytes, has_scales(config.parts) ? exact_config(d).shared_bytes : 0);
    if (bytes <= facts.shared_bytes_per_block) return config;
  }
  const int dim = facts.fp32 ? padded(kBackwardGeneralFp32Dims, d) : padded(kBackwardGeneralDims, d);
  return planned(BackwardKind::general, dim, facts);
}

}  // namespace strobe::cuda::sm80
