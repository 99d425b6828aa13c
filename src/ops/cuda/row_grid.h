// Grid of kernels in which a thread processes one vector of a row. Each block processes the same columns of every
// gridDim.y-th row, so blocks that run at the same time access adjacent memory.
#pragma once

#include <algorithm>
#include <cstdint>

namespace strobe::ops::cuda {

inline constexpr unsigned kMostRowThreads = 256;

struct RowGrid {
  unsigned parts, rows;  // gridDim.x: blocks along a row; gridDim.y: blocks along the rows
  unsigned threads;      // threads per block
};

// Selects the block size that leaves the fewest threads idle at the end of a row of `vectors` vectors. Considers only
// block sizes that need at most twice as many blocks along a row as kMostRowThreads does.
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
