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

BackwardConfig planned(BackwardKind kind, int d, std::size_t limit) {
  BackwardConfig config;
  config.kind = kind;
  config.d = d;
  config.shape = backward_shape(d, kind);
  config.stages = backward_shared_bytes(d, config.shape, 2) <= limit ? 2 : 1;
  config.shared_bytes = backward_shared_bytes(d, config.shape, config.stages);
  return config;
}

}  // namespace

BackwardConfig backward_config(const BackwardFacts& facts) {
  const int d = std::max(facts.d, facts.dv);
  const std::size_t limit = facts.shared_bytes_per_block;
  if (!facts.general) {
    const BackwardConfig config = planned(BackwardKind::plain, padded(kBackwardPlainDims, d), limit);
    if (config.shared_bytes <= limit) return config;
  }
  return planned(BackwardKind::general, padded(kBackwardGeneralDims, d), limit);
}

}  // namespace strobe::cuda::sm80
