// Forward launches, one function per padded head dimension (d32.cu .. d256.cu) and the one that chooses among them.
#pragma once

#include "attention/cuda/sm80/forward/args.h"
#include "attention/cuda/sm80/forward/config.h"
#include "strobe/dtype.h"

namespace strobe::cuda::sm80 {

struct ForwardLaunch {
  ForwardConfig config;
  DType dtype = DType::bf16;
  void* stream = nullptr;
  ForwardArgs args;
};

template <int kD>
void launch_forward_tiles(const ForwardLaunch& launch);

// The whole pass. rows: all of all heads, as LSE counts them; workspace: splits_bytes(...), null where that is 0.
void launch_forward(ForwardLaunch launch, std::int64_t rows, void* workspace);

}  // namespace strobe::cuda::sm80
