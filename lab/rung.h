// The ladder's one interface: what every rung computes, how it tells its time, and what is known of it beforehand.
// Rungs are in cpu/ and cuda/, one file each; rungs.cpp lists them; measure.cpp checks and times them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace strobe::lab {

// O = softmax(Q K^T / sqrt(dim)) V for every batch, fp32. All in the host's memory, contiguous.
struct Problem {
  int batch = 0, rows = 0, dim = 0;
  const float* q = nullptr;  // [batch, rows, dim]
  const float* k = nullptr;  // likewise
  const float* v = nullptr;

  std::int64_t elements() const { return std::int64_t{batch} * rows * dim; }  // of one of Q, K, V, O
};

// Where the time of one run went, in seconds. Where a rung lets copies and kernels overlap, the parts of `total` add up
// to more than it; on the CPU `kernel` is all of it.
struct Split {
  double total = 0;  // from the first copy to the last; none of the next three
  double allocate = 0;
  double create = 0;  // streams and events
  double pin = 0;     // getting page-locked memory, and copies to it
  double to_device = 0;
  double kernel = 0;
  double to_host = 0;
};

using Run = Split (*)(const Problem& problem, float* o);  // o [batch, rows, dim]; throws strobe::Error

enum class Place { cpu, gpu };
enum class Sizes { any, tiles };  // tiles: dim 32 or 64, rows a multiple of 32

struct Rung {
  std::string_view name;
  std::string_view idea;  // by which it differs from the one before
  Place place;
  Sizes sizes;
  Run run;  // null: not in this build
};

// In the order of the ladder; the first is the sequential program that all others are compared with.
std::span<const Rung> rungs();

// Throws Error(invalid_argument) with the valid names.
const Rung& find_rung(std::string_view name);

// Why a rung cannot run this here: not in this build, no GPU, sizes. Empty where it can.
std::string refusal_of(const Rung& rung, const Problem& problem);

// The GPU rung of that name; null where there is none (no_cuda.cpp: always).
Run gpu_run(std::string_view name);

}  // namespace strobe::lab
