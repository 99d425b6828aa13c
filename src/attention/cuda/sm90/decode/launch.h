// Arguments and launch of the Hopper decode kernel.
#pragma once

#include <cuda.h>

#include "attention/cuda/params.h"
#include "attention/cuda/sm90/decode/config.h"
#include "attention/cuda/splits.h"
#include "strobe/dtype.h"

namespace strobe::cuda::sm90 {

struct DecodeParams : OutputParams {
  DecodeParams() = default;
  explicit DecodeParams(const Params& params) : OutputParams(params), q(params.q), first_keys(params.first_keys) {}

  Tensor q;
  Indices first_keys;
};

struct DecodeArgs {
  CUtensorMap k, v;
  DecodeParams params;
  Splits splits;
  std::int32_t items = 0;  // units times splits
  float factor = 1;        // q.k * factor is the base-2 exponent of a score
};

struct DecodeLaunch {
  DecodeConfig config;
  DType dtype = DType::bf16;
  int multiprocessors = 1;
  void* stream = nullptr;
};

// Kernels of one padded head dimension; CMakeLists.txt lists the instances.
template <int kD>
struct DecodeKernels {
  static void launch(const DecodeLaunch& launch, const DecodeArgs& args);
};

}  // namespace strobe::cuda::sm90
