// Estimates the fraction of a GPU's peak matmul rate that an output tile size can reach. algorithms.cpp ranks
// cuBLASLt's tile sizes with it.
#pragma once

#include <cstdint>

namespace strobe::ops::cuda {

struct Tile {
  int rows = 0, cols = 0;
};

// Returns the fraction of the GPU's rate that a matmul with a result [rows, cols] can reach. Each multiprocessor
// computes one tile at a time. Three things lower the fraction: tiles that extend past the edges, idle multiprocessors
// in the last wave, and operand reads. Small tiles read more per operation.
constexpr double expected_rate(std::int64_t rows, std::int64_t cols, Tile tile, int multiprocessors) {
  const auto over = [](std::int64_t all, std::int64_t part) { return (all + part - 1) / part; };
  const std::int64_t tiles = over(rows, tile.rows) * over(cols, tile.cols);
  const std::int64_t slots = over(tiles, multiprocessors) * multiprocessors;  // tiles if every wave were full
  const double area = static_cast<double>(tile.rows) * tile.cols;
  const double full = static_cast<double>(rows) * static_cast<double>(cols) / (static_cast<double>(slots) * area);
  constexpr double kReads =
      8;  // multiplications in the time of one element load, fitted to the measured order of tile sizes
  return full / (1 + kReads * (tile.rows + tile.cols) / area);
}

}  // namespace strobe::ops::cuda
