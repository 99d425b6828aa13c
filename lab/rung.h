// Interface of a rung, which is one program of the ladder (docs/ladder.md). Defines the problem that a rung computes,
// the times that it returns, and the sizes that it supports. The functions are in cpu/ and cuda/; rungs.cpp lists the
// rungs; measure.cpp checks and times them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace strobe::lab {

// O = softmax(Q K^T / sqrt(dim)) V for every batch, in fp32. All tensors are contiguous in host memory.
struct RungProblem {
  int batch = 0, rows = 0, dim = 0;
  const float* q = nullptr;  // [batch, rows, dim]
  const float* k = nullptr;  // [batch, rows, dim]
  const float* v = nullptr;  // [batch, rows, dim]

  std::int64_t elements() const { return std::int64_t{batch} * rows * dim; }  // elements per tensor
};

// Kernel launches of one run. count is 0 on the CPU, and for rung `library`, which does not report its launches.
struct Launches {
  std::int64_t count = 0;
  std::size_t shared_bytes = 0;  // dynamic shared memory of a block
};

// Times of one run, in seconds. If copies and kernels overlap, to_device, kernel and to_host add up to more than
// `total`. On the CPU `kernel` equals `total`.
struct Split {
  double total = 0;  // from the first copy to the last; excludes allocate, create and pin
  double allocate = 0;
  double create = 0;  // streams and events
  double pin = 0;     // allocating page-locked memory, and copies to it
  double to_device = 0;
  double kernel = 0;
  double to_host = 0;
  Launches launches{};
};

using Run = Split (*)(const RungProblem& problem, float* o);  // o [batch, rows, dim]; throws strobe::Error

enum class Processor { cpu, gpu };
enum class Sizes { any, tiles };  // tiles: dim 32 or 64, rows a multiple of 32, batch <= 65535

struct Rung {
  std::string_view name;
  std::string_view idea;  // the difference from the rung before
  Processor processor;
  Sizes sizes;
  Run run;  // null if this build lacks the rung
};

// All rungs in the order of the ladder. The first is the sequential program, the base of all speed-ups.
std::span<const Rung> rungs();

// Throws Error(invalid_argument) that lists the valid names if there is no such rung.
const Rung& find_rung(std::string_view name);

// Returns why a rung cannot run this problem (not in this build, no GPU, sizes), or "" if it can.
std::string refusal_of(const Rung& rung, const RungProblem& problem);

// Returns the function of the GPU rung with that name; null if there is none. no_cuda.cpp always returns null.
Run gpu_run(std::string_view name);

}  // namespace strobe::lab
