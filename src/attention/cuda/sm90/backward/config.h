// Tiles of the Hopper backward: pure functions of the problem, for kernel, launch, explain and tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/divide.h"

namespace strobe::cuda::sm90 {

// What the two warpgroups that multiply divide among them.
// keys: of 128 each has 64. Weights and their gradients are left operands as they lie in its registers.
// columns: of dK and dV, of which registers hold no more than half. Each computes the scores of half the rows, and they
// exchange them through shared memory. Two blocks form a cluster; each has keys of its own and half the columns of dQ.
// tiles: of rows, in turns, all with the same 64 keys, so that a walk takes half the time. Each has dK and dV of its
// own; they are added at the end.
enum class Share { keys, columns, tiles };

// A block owns `keys` keys and walks tiles of `rows` rows. One warp more loads for both warpgroups.
struct BackwardShape {
  int rows, keys;
  Share share = Share::keys;

  friend constexpr bool operator==(const BackwardShape&, const BackwardShape&) = default;
};

// Blocks per cluster. They walk the same row tiles, each with keys of its own.
constexpr int cluster_blocks(const BackwardShape& shape) { return shape.share == Share::columns ? 2 : 1; }

// Keys of a cluster: a tile of keys as tickets count them.
constexpr int cluster_keys(const BackwardShape& shape) { return cluster_blocks(shape) * shape.keys; }

// Stages: tiles of Q, and of dO, in flight for each tile of rows that is worked on.
inline constexpr int kBackwardConsumers = 2, kBackwardStages = 2;
inline constexpr int kBackwardThreads = 128 * (kBackwardConsumers + 1);
// Registers of a thread that multiplies, and of one that loads: together no more than what the block starts with, 168 a
// thread, or a warpgroup would wait for them without end.
inline constexpr int kBackwardConsumerRegisters = 240, kBackwardProducerRegisters = 24;
inline constexpr int kPairConsumerRegisters = 232, kPairProducerRegisters = 40;  // Share::columns
constexpr bool backward_registers_suffice(int consumer, int producer) {
  return kBackwardConsumers * consumer + producer <= 65536 / kBackwardThreads / 8 * 8 * (kBackwardConsumers + 1);
}
static_assert(backward_registers_suffice(kBackwardConsumerRegisters, kBackwardProducerRegisters) &&
              backward_registers_suffice(kPairConsumerRegisters, kPairProducerRegisters));

// Head dimensions that have a kernel; smaller ones are padded to the next by the copy engine, with zeros.
inline constexpr int kBackwardDims[] = {64, 128, 256};

// Of a tile, whatever the warpgroups share: sums of dQ lie by it.
constexpr int backward_rows(int d) { return d <= 64 ? 128 : 64; }

constexpr BackwardShape backward_shape(int d, Share share) {
  return {backward_rows(d), share == Share::keys ? 128 : 64, share};
}

// Warpgroups that work on the same tile of rows.
constexpr int sharers_of(const BackwardShape& shape) { return shape.share == Share::tiles ? 1 : kBackwardConsumers; }

constexpr int stages_of(const BackwardShape& shape) { return kBackwardStages * kBackwardConsumers / sharers_of(shape); }

// Stages of dO; stages_of() counts those of Q.
constexpr int d_o_stages_of(const BackwardShape& shape) { return shape.share == Share::columns ? 1 : stages_of(shape); }

// Buffers of scores. keys: two of dS. tiles: two of dS per warpgroup. columns: two each of P, dS and the other block's
// dS.
constexpr int score_places(const BackwardShape& shape) {
  return shape.share == Share::keys ? 2 : shape.share == Share::tiles ? 4 : 6;
}

// dQ of a row tile leaves the consumers through shared memory, and one thread of the producer warpgroup adds it to
// global memory by bulk reduction. Otherwise the consumers add it by vector reductions: there is no shared memory left,
// or each warpgroup has row tiles of its own.
constexpr bool reduces_in_bulk(const BackwardShape& shape) { return shape.share == Share::keys; }

inline constexpr int kBackwardBarrierBytes = 256, kPairBarrierBytes = 512;

// Shared memory: K, V, half of the other block's K (Share::columns), the stages of Q, those of dO, buffers of scores,
// dQ in fp32, LSE and delta of the stages' rows, barriers.
constexpr std::size_t backward_shared_bytes(int d, const BackwardShape& shape) {
  const int stages = stages_of(shape);
  const bool pairs = shape.share == Share::columns;
  return static_cast<std::size_t>(2 * d * (2 * shape.keys + (stages + d_o_stages_of(shape)) * shape.rows) +
                                  (pairs ? d * shape.keys : 0) + 2 * score_places(shape) * shape.rows * shape.keys +
                                  (reduces_in_bulk(shape) ? 4 * shape.rows * d : 0) + stages * 8 * shape.rows +
                                  (pairs ? kPairBarrierBytes : kBackwardBarrierBytes));
}

struct BackwardConfig {
  int d = 0;  // padded, of Q and K as of V
  BackwardShape shape{};
  std::size_t shared_bytes = 0;
};

struct BackwardFacts {
  int d = 0;               // the larger head dimension, at most 256
  std::int64_t heads = 0;  // of K and V, of all sequences
  std::int64_t max_k = 0;
  int multiprocessors = 1;
  bool uneven = false;         // rows see different numbers of keys: a mask, or lengths
  bool deterministic = false;  // parts of dQ are added in order
};

// So few tiles of 64 keys that the longest walk is what a call takes, which 64 keys halve. Measured on an H200: one to
// a multiprocessor, or two where walks differ.
constexpr bool leaves_card_empty(const BackwardFacts& facts) {
  return facts.heads * ceil_div(facts.max_k, 64) <= std::int64_t{facts.uneven ? 2 : 1} * facts.multiprocessors;
}

constexpr BackwardConfig backward_config(const BackwardFacts& facts) {
  BackwardConfig config;
  for (const int dim : kBackwardDims) {
    config.d = dim;
    if (facts.d <= dim) break;
  }
  // In order, each tile of keys waits for the one before it: fewer, larger ones take less, however few there are.
  const bool alternates = leaves_card_empty(facts) && !facts.deterministic;
  const Share share = config.d > 128 ? Share::columns : alternates ? Share::tiles : Share::keys;
  config.shape = backward_shape(config.d, share);
  config.shared_bytes = backward_shared_bytes(config.d, config.shape);
  return config;
}

// So many blocks at most are started together, so that no counter must be zero before. They find room beside another
// kernel, such as one that sends gradients, instead of waiting for its end.
constexpr std::int64_t most_together(int multiprocessors) { return std::int64_t{multiprocessors} * 3 / 4; }

// Blocks of the grid: whole clusters, as many as the card holds at a time, no more than there is work for. units: what
// single blocks can work on at the same time.
constexpr std::int64_t backward_blocks(std::int64_t units, int cluster, int multiprocessors) {
  return std::min<std::int64_t>(ceil_div(units, cluster), std::max(multiprocessors / cluster, 1)) * cluster;
}

}  // namespace strobe::cuda::sm90
