// The grid of kernels that take a vector a thread: a block has a part of a row, and that part of every so many-th row,
// so that blocks which run together read memory that lies together.
#pragma once

#include <algorithm>
#include <cstdint>

namespace strobe::ops::cuda {

inline constexpr unsigned kMostRowThreads = 256;

struct RowGrid {
  unsigned parts, rows;  // gridDim.x; gridDim.y, the step from a block's row to its next
  unsigned threads;
};

// Threads as leave the fewest idle at the end of a row of `vectors`.
constexpr RowGrid row_grid(std::int64_t rows, std::int64_t vectors) {
  constexpr std::int64_t kMostRows = 65535;
  const auto parts = [&](std::int64_t threads) { return (vectors + threads - 1) / threads; };
  std::int64_t best = kMostRowThreads;
  for (std::int64_t threads = best - 32; threads > 0; threads -= 32) {
    if (parts(threads) > 2 * parts(kMostRowThreads)) break;
    if (parts(threads) * threads < parts(best) * best) best = threads;
  }
  return {static_cast<unsigned>(parts(best)), static_cast<unsigned>(std::min(rows, kMostRows)),
          static_cast<unsigned>(best)};
}

}  // namespace strobe::ops::cuda
