// How well tiles of a product's result fill a GPU. Pure: algorithms.cpp ranks cuBLASLt's tiles with it.
#pragma once

#include <cstdint>

namespace strobe::ops::cuda {

struct Tile {
  int rows = 0, cols = 0;
};

// What part of the GPU's rate a result [rows, cols] can reach, each tile being one multiprocessor's work at a time:
// tiles stick out over the edges, the last round leaves multiprocessors idle, and a small tile reads more for each
// product.
constexpr double expected_rate(std::int64_t rows, std::int64_t cols, Tile tile, int multiprocessors) {
  const auto over = [](std::int64_t all, std::int64_t part) { return (all + part - 1) / part; };
  const std::int64_t tiles = over(rows, tile.rows) * over(cols, tile.cols);
  const std::int64_t places = over(tiles, multiprocessors) * multiprocessors;
  const double area = static_cast<double>(tile.rows) * tile.cols;
  const double full = static_cast<double>(rows) * static_cast<double>(cols) / (static_cast<double>(places) * area);
  constexpr double kReads = 8;  // products in the time of an element's load, from ranks of measured tiles
  return full / (1 + kReads * (tile.rows + tile.cols) / area);
}

}  // namespace strobe::ops::cuda
