// Tile configuration of the Hopper backward: constexpr functions of the problem, used by the kernels, their launch,
// `strobe explain` and tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/divide.h"

namespace strobe::cuda::sm90 {

// How the two consumer warpgroups of a block divide the work:
// keys: each owns 64 of 128 keys. P and dS are A operands directly from its registers.
// columns: each owns half of the columns of dK and dV, because its registers hold no more. Each computes the scores of
// half of the rows, and they exchange P and dS through shared memory. Two blocks form a cluster; each block owns 64
// keys and computes half of the columns of dQ.
// tiles: both own the same 64 keys and alternate on row tiles, which halves the time of the loop over row tiles. Each
// accumulates its own dK and dV, which are added at the end.
enum class Share { keys, columns, tiles };

// A block owns `keys` keys and loops over tiles of `rows` rows. A producer warpgroup loads for both consumers.
struct BackwardShape {
  int rows, keys;
  Share share = Share::keys;

  friend constexpr bool operator==(const BackwardShape&, const BackwardShape&) = default;
};

// Blocks per cluster. The blocks of a cluster loop over the same row tiles; each has its own keys.
constexpr int cluster_blocks(const BackwardShape& shape) { return shape.share == Share::columns ? 2 : 1; }

// Keys of a cluster. The work counter counts them as one key tile.
constexpr int cluster_keys(const BackwardShape& shape) { return cluster_blocks(shape) * shape.keys; }

// kBackwardStages: pipeline stages of Q per row tile in progress. dO has as many, except with Share::columns
// (d_o_stages_of()). With Share::tiles two row tiles are in progress at a time.
inline constexpr int kBackwardConsumers = 2, kBackwardStages = 2;
inline constexpr int kBackwardThreads = 128 * (kBackwardConsumers + 1);
// setmaxnreg targets: registers per thread of a consumer and of the producer warpgroup. Their average over the three
// warpgroups must not exceed the 168 with which the block starts, or a warpgroup would wait forever.
inline constexpr int kBackwardConsumerRegisters = 240, kBackwardProducerRegisters = 24;
inline constexpr int kPairConsumerRegisters = 232, kPairProducerRegisters = 40;  // Share::columns
constexpr bool backward_registers_suffice(int consumer, int producer) {
  return kBackwardConsumers * consumer + producer <= 65536 / kBackwardThreads / 8 * 8 * (kBackwardConsumers + 1);
}
static_assert(backward_registers_suffice(kBackwardConsumerRegisters, kBackwardProducerRegisters) &&
              backward_registers_suffice(kPairConsumerRegisters, kPairProducerRegisters));

// Padded head dimensions that have a kernel. TMA fills missing columns with zeros.
inline constexpr int kBackwardDims[] = {64, 128, 256};

// Rows per tile of most calls, the same for every Share. The layout of the dQ sums depends on the rows.
constexpr int backward_rows(int d) { return d <= 64 ? 128 : 64; }

// Tall tiles: Share::keys at D 128, without options. Each wgmma instruction reads its A operand from shared memory for
// 80 rows instead of 64. Speed relative to 64 rows on an H200: full 0.90 to 1.00 up to S 2048, 1.015 to 1.06 from S
// 4096; causal, where a key sees half of the rows, 0.82 to 0.97 up to S 4096, 1.03 from S 8192. Shared memory is too
// small for 96 rows.
inline constexpr int kTallDim = 128, kTallRows = 80;
inline constexpr std::int64_t kTallFromRows = 4096;

// True if dQ of a row tile is computed transposed, [columns][rows], because wgmma has M = 64 and the rows are N.
constexpr bool transposes_dq(int rows) { return rows % 64 != 0; }

constexpr BackwardShape backward_shape(Share share, int rows) { return {rows, share == Share::keys ? 128 : 64, share}; }
constexpr BackwardShape backward_shape(int d, Share share) { return backward_shape(share, backward_rows(d)); }

// Number of consumer warpgroups that work on the same row tile.
constexpr int sharers_of(const BackwardShape& shape) { return shape.share == Share::tiles ? 1 : kBackwardConsumers; }

constexpr int stages_of(const BackwardShape& shape) { return kBackwardStages * kBackwardConsumers / sharers_of(shape); }

// Number of stages of dO; stages_of() is that of Q.
constexpr int d_o_stages_of(const BackwardShape& shape) { return shape.share == Share::columns ? 1 : stages_of(shape); }

// Number of buffers for P and dS. keys: two of dS. tiles: two of dS per warpgroup. columns: two each of P, of dS and of
// the other block's dS.
constexpr int score_places(const BackwardShape& shape) {
  return shape.share == Share::keys ? 2 : shape.share == Share::tiles ? 4 : 6;
}

// Stages of the bias tile, [rows][keys].
inline constexpr int kBiasStages = 2;

// True if the consumers write dQ of a row tile to shared memory. One thread of the producer warpgroup then adds it to
// global memory by bulk reduction. Otherwise the consumers add dQ by vector reductions: shared memory is full, or each
// warpgroup has its own row tiles.
constexpr bool reduces_in_bulk(const BackwardShape& shape) { return shape.share == Share::keys; }

inline constexpr int kBackwardBarrierBytes = 256, kPairBarrierBytes = 512;

// Shared memory that the kernels with a bias need in addition: stages of the bias and their barriers.
inline constexpr int kBiasBarrierBytes = 32;
constexpr std::size_t bias_shared_bytes(const BackwardShape& shape) {
  return static_cast<std::size_t>(kBiasStages * 2 * shape.rows * shape.keys + kBiasBarrierBytes);
}

// Shared memory: K, V, half of the other block's K (Share::columns), the stages of Q, those of dO, buffers of P and dS,
// dQ in fp32, bias, LSE and delta of the stages' rows, barriers.
constexpr std::size_t backward_shared_bytes(int d, const BackwardShape& shape) {
  const int stages = stages_of(shape);
  const bool pairs = shape.share == Share::columns;
  return static_cast<std::size_t>(2 * d * (2 * shape.keys + (stages + d_o_stages_of(shape)) * shape.rows) +
                                  (pairs ? d * shape.keys : 0) + 2 * score_places(shape) * shape.rows * shape.keys +
                                  (reduces_in_bulk(shape) ? 4 * shape.rows * d : 0) + stages * 8 * shape.rows +
                                  (pairs ? kPairBarrierBytes : kBackwardBarrierBytes));
}

// Padded head dimension of the kernel with a bias. At 64 its row tiles of 128 rows need too many registers, and above
// 128 shared memory has no space for the bias.
inline constexpr int kBiasBackwardDim = 128;

struct BackwardConfig {
  int d = 0;  // padded; the same for Q, K and V
  BackwardShape shape{};
  std::size_t shared_bytes = 0;
};

struct BackwardFacts {
  int d = 0;               // larger of the two head dimensions, at most 256
  std::int64_t heads = 0;  // KV heads of all sequences
  std::int64_t max_seqlen_k = 0;
  int multiprocessors = 1;
  bool uneven = false;            // rows may see different numbers of keys, because of a mask or of lengths
  bool deterministic = false;     // dQ is accumulated in a fixed order
  bool options = false;           // has score options; their kernels exist for Share::keys and Share::columns only
  bool bias = false;              // one of the options is a bias; head dimensions up to kBiasBackwardDim
  std::int64_t rows_per_key = 0;  // rows that an average key sees
};

// True if there are so few tiles of 64 keys that the longest loop over row tiles determines the time. Share::tiles
// halves this loop. The limit was measured on an H200: one tile per multiprocessor, or two if loops differ in length.
constexpr bool leaves_card_empty(const BackwardFacts& facts) {
  return facts.heads * ceil_div(facts.max_seqlen_k, 64) <= std::int64_t{facts.uneven ? 2 : 1} * facts.multiprocessors;
}

constexpr BackwardConfig backward_config(const BackwardFacts& facts) {
  BackwardConfig config;
  for (const int dim : kBackwardDims) {
    config.d = dim;
    if (facts.d <= dim && !(facts.bias && dim < kBiasBackwardDim)) break;
  }
  // With ordered accumulation a key tile waits for the previous one, so fewer and larger tiles are faster.
  const bool alternates = leaves_card_empty(facts) && !facts.deterministic && !facts.options;
  const Share share = config.d > 128 ? Share::columns : alternates ? Share::tiles : Share::keys;
  const bool tall =
      config.d == kTallDim && share == Share::keys && !facts.options && facts.rows_per_key >= kTallFromRows;
  config.shape = backward_shape(share, tall ? kTallRows : backward_rows(config.d));
  config.shared_bytes = backward_shared_bytes(config.d, config.shape);
  if (facts.bias) config.shared_bytes += bias_shared_bytes(config.shape);
  return config;
}

// Blocks in the largest grid for which a cooperative launch is tried; such a launch saves clearing the counters. The
// grid leaves a quarter of the GPU free, so that it can start while another kernel, such as a gradient all-reduce,
// runs.
constexpr std::int64_t most_together(int multiprocessors) { return std::int64_t{multiprocessors} * 3 / 4; }

// Number of blocks, in whole clusters: at most as many as run at the same time, and at most one per work item. units:
// number of work items; a key tile counts once per block of its cluster.
constexpr std::int64_t backward_blocks(std::int64_t units, int cluster, int multiprocessors) {
  return std::min<std::int64_t>(ceil_div(units, cluster), std::max(multiprocessors / cluster, 1)) * cluster;
}

}  // namespace strobe::cuda::sm90
