// The measured ceilings of this machine that results are held against: `strobe env` and every bench result.
#pragma once

#include <optional>
#include <string>

#include "bench/case.h"
#include "core/json.h"
#include "strobe/dtype.h"

namespace strobe::bench {

struct Ceilings {
  int threads = 1;
  std::string fma_instructions;
  std::optional<double> fma_core, fma_all;  // fp32, FLOP/s: one core; all threads
  std::optional<double> blas_fp32;          // OpenBLAS's product, FLOP/s, all threads
  std::optional<double> own[3];             // by dtype, FLOP/s: flash2's inner product in cache; on a GPU cuBLAS's
  std::optional<double> copy;               // bytes read and written a second, all threads

  // The matrix-product rate of a type: the best that was measured.
  std::optional<double> product(DType dtype) const;
};

enum class Depth {
  none,   // nothing is measured
  brief,  // what a bench row needs, about half a second
  full,   // everything, about three seconds
};

// `dtype` is that of the case; fp32 is always measured.
Ceilings measure_ceilings(int threads, DType dtype, Depth depth);

// Those of the case's device; of a GPU the copy rate and cuBLAS's product in the case's type, about 100 ms.
Ceilings ceilings_for(const Case& one, Depth depth);

Json ceilings_json(const Ceilings& ceilings);

// environment_json() of measure/ with instruction sets and ceilings.
Json full_environment(const Ceilings& ceilings);

}  // namespace strobe::bench
