// Arguments and launch of the Hopper forward for fp32.
#pragma once

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/device/tile_scheduler.h"
#include "attention/cuda/sm90/forward_fp32/config.h"
#include "attention/cuda/splits.h"

namespace strobe::cuda::sm90 {

struct Fp32ForwardParams : InputParams, OutputParams {
  Fp32ForwardParams() = default;
  explicit Fp32ForwardParams(const Params& params) : InputParams(params), OutputParams(params) {}
};

struct Fp32ForwardArgs {
  Fp32ForwardParams params;
  TileScheduler scheduler;  // row tiles of all query heads, one work tile per key split
  Splits splits;
  float factor = 1;   // q.k * factor is the base-2 exponent of a score
  float natural = 1;  // score = q.k * factor * natural; `natural` is about ln 2
};

struct Fp32ForwardLaunch {
  Fp32Config config;
  bool uneven = false;    // as in ForwardFacts
  std::int64_t rows = 0;  // number of LSE entries
  int multiprocessors = 1;
  void* stream = nullptr;
};

// Kernels of one padded head dimension; CMakeLists.txt lists the instances.
template <int kD>
struct Fp32ForwardKernels {
  static void launch(const Fp32ForwardLaunch& launch, const Fp32ForwardArgs& args);
};

}  // namespace strobe::cuda::sm90
