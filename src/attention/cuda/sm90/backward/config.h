// Tiles of the Hopper backward: pure functions of the head dimension, for kernel, launch, explain and tests.
#pragma once

#include <cstddef>

namespace strobe::cuda::sm90 {

// A block owns `keys` keys and walks tiles of `rows` rows. Two warpgroups multiply; one warp more loads for both.
// With 128 keys each warpgroup has 64 of them: weights and their gradients are left operands as they lie in its
// registers. With 64, for which a warpgroup's registers hold dK and dV of half the head dimension only, each computes
// the scores of half the rows, and they exchange them through shared memory.
struct BackwardShape {
  int rows, keys;
};

inline constexpr int kBackwardConsumers = 2, kBackwardStages = 2;  // tiles of Q, and of dO, in flight
inline constexpr int kBackwardThreads = 128 * (kBackwardConsumers + 1);
// Registers of a thread that multiplies, and of one that loads: together no more than what the block starts with, 168 a
// thread, or a warpgroup would wait for them without end.
inline constexpr int kBackwardConsumerRegisters = 240, kBackwardProducerRegisters = 24;
static_assert(kBackwardConsumers * kBackwardConsumerRegisters + kBackwardProducerRegisters <=
              65536 / kBackwardThreads / 8 * 8 * (kBackwardConsumers + 1));

// Head dimensions that have a kernel; smaller ones are padded to the next by the copy engine, with zeros.
inline constexpr int kBackwardDims[] = {64, 128, 256};

constexpr BackwardShape backward_shape(int d) {
  if (d <= 64) return {128, 128};
  if (d <= 128) return {64, 128};
  return {64, 64};
}

constexpr bool splits_keys(const BackwardShape& shape) { return shape.keys == 128; }

// Shared memory: K, V, the stages of Q, those of dO, then twice the gradients of scores (and the weights, where they
// are exchanged), LSE and delta of the stages' rows, barriers.
constexpr std::size_t backward_shared_bytes(int d, const BackwardShape& shape) {
  const int exchanged = splits_keys(shape) ? 1 : 2;
  return static_cast<std::size_t>(2 * d * (2 * shape.keys + 2 * kBackwardStages * shape.rows) +
                                  2 * 2 * exchanged * shape.rows * shape.keys + kBackwardStages * 8 * shape.rows + 256);
}

struct BackwardConfig {
  int d = 0;  // padded, of Q and K as of V
  BackwardShape shape{};
  std::size_t shared_bytes = 0;
};

// d: the larger head dimension, at most 256.
constexpr BackwardConfig backward_config(int d) {
  BackwardConfig config;
  for (const int dim : kBackwardDims) {
    config.d = dim;
    if (d <= dim) break;
  }
  config.shape = backward_shape(config.d);
  config.shared_bytes = backward_shared_bytes(config.d, config.shape);
  return config;
}

}  // namespace strobe::cuda::sm90
