// Tiles of the Hopper forward and the order in which blocks take them: pure functions of the problem and the card, for
// kernel, launch, explain and tests.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strobe::cuda::sm90 {

// Three warpgroups multiply where their registers suffice; one warp more loads for all of them.
struct ForwardShape {
  int consumers;  // warpgroups, of 64 rows each
  int keys;       // of a tile
  int stages;     // tiles of K, and of V, that are in shared memory at a time
};

constexpr int rows_of(const ForwardShape& shape) { return 64 * shape.consumers; }
constexpr int threads_of(const ForwardShape& shape) { return 128 * (shape.consumers + 1); }

// Registers of a thread that multiplies, and of one that loads: 64 K in all.
constexpr int consumer_registers(const ForwardShape& shape) { return shape.consumers == 3 ? 160 : 240; }
constexpr int producer_registers(const ForwardShape& shape) { return shape.consumers == 3 ? 32 : 24; }

// Head dimensions that have a kernel; smaller ones are padded to the next, by the copy engine.
struct HeadDims {
  int d, dv;
};
inline constexpr HeadDims kForwardDims[] = {{64, 64}, {96, 96}, {128, 128}, {192, 128}, {192, 192}, {256, 256}};

constexpr ForwardShape forward_shape(HeadDims dims) {
  if (dims.d <= 64) return {3, 128, 2};
  if (dims.d <= 128) return {2, 128, 2};
  if (dims.d <= 192) return {2, 112, 2};
  return {2, 80, 2};
}

// Shared memory: Q, then the stages of K, those of V, then the barriers.
constexpr std::size_t forward_shared_bytes(HeadDims dims, const ForwardShape& shape) {
  const auto slabs = [](int columns) { return static_cast<std::size_t>((columns + 63) / 64 * 128); };
  return slabs(dims.d) * rows_of(shape) + shape.stages * shape.keys * (slabs(dims.d) + slabs(dims.dv)) + 128;
}

}  // namespace strobe::cuda::sm90
