// Where things lie in a block's shared memory in the Hopper forward for fp32.
#pragma once

#include "attention/cuda/sm90/device/barrier.cuh"
#include "attention/cuda/sm90/device/wgmma.cuh"
#include "attention/cuda/sm90/forward_fp32/config.h"

namespace strobe::cuda::sm90 {

template <int kD, Fp32Shape kShape>
struct Fp32Memory {
  static constexpr int kRows = rows_of(kShape), kKeys = kShape.keys;
  static constexpr int kStages = kShape.stages, kQStages = kShape.q_stages;
  static constexpr int kSplitterRegisters = splitter_registers(kShape);
  static constexpr int kConsumerRegisters = consumer_registers(kShape);
  // Those who split, 8 elements each: kLanes side by side have a row, and all of them kStep rows.
  static constexpr int kThreads = 128 * kShape.splitters, kLanes = kD / 8, kStep = kThreads / kLanes;
  static constexpr int kPieceRows = piece_rows(kD, kShape), kPieces = kKeys / kPieceRows;  // of a tile of K or V
  static constexpr int kQPieces = kRows / kPieceRows;
  static_assert(kKeys % kPieceRows == 0 && kRows % kPieceRows == 0 && kPieces <= 4 && kPieceRows % 32 == 0);
  // Of one part. The second part of a tile lies behind the first.
  static constexpr std::uint32_t kQPart = kSlabsBytes<kRows, kD>, kKeyPart = kSlabsBytes<kKeys, kD>;
  static constexpr std::uint32_t kScales = fp32_tile_bytes(kD, kShape);
  static constexpr std::uint32_t kPieceScales = kScales + 4 * (kQStages * kRows + 2 * kStages * kKeys);
  static constexpr std::uint32_t kExchange = kScales + fp32_scale_bytes(kShape);
  static constexpr std::uint32_t kBarriers = kExchange + kFp32ExchangeBytes;
  static constexpr std::uint32_t kPlaces = kBarriers + 8 * fp32_barriers(kShape);
  static_assert(kScales % 1024 == 0 && kExchange % 16 == 0 && kPlaces % 16 == 0);
  static_assert(kPlaces + 16 * kQStages == fp32_shared_bytes(kD, kShape));
  std::uint32_t base = shared_base();

  __device__ __forceinline__ std::uint32_t q(int stage) const { return at(stage * 2 * kQPart); }
  __device__ __forceinline__ std::uint32_t k(int stage) const { return q(kQStages) + at_stage(stage, 2 * kKeyPart); }
  __device__ __forceinline__ std::uint32_t v(int stage) const { return k(kStages) + at_stage(stage, 2 * kKeyPart); }
  // fp32, what brings each row back to its size.
  __device__ __forceinline__ std::uint32_t q_scales(int stage) const { return at(kScales + stage * kRows * 4); }
  __device__ __forceinline__ std::uint32_t k_scales(int stage) const {
    return q_scales(kQStages) + at_stage(stage, kKeys * 4);
  }
  __device__ __forceinline__ std::uint32_t v_scales(int stage) const {
    return k_scales(kStages) + at_stage(stage, kKeys * 4);
  }
  // By piece: what brings all its rows back; 0 where each has a scale of its own.
  __device__ __forceinline__ std::uint32_t k_piece_scales(int stage) const { return at(kPieceScales + stage * 16); }
  __device__ __forceinline__ std::uint32_t v_piece_scales(int stage) const { return k_piece_scales(kStages + stage); }
  // Among those who split, four of each: sizes, by warp; tiles of rows.
  __device__ __forceinline__ std::uint32_t sizes(int index) const { return at(kExchange + index * 64); }
  __device__ __forceinline__ std::uint32_t rows(int turn) const { return sizes(4 + turn % 4); }
  // "full": all threads that split have written, all pieces of K and V. "free": all threads that multiply have read.
  __device__ __forceinline__ Barrier q_full(int stage) const { return barrier(stage); }
  __device__ __forceinline__ Barrier q_free(int stage) const { return barrier(kQStages + stage); }
  __device__ __forceinline__ Barrier k_full(int stage) const { return barrier(2 * kQStages + stage); }
  __device__ __forceinline__ Barrier k_free(int stage) const { return barrier(2 * kQStages + kStages + stage); }
  __device__ __forceinline__ Barrier v_full(int stage) const { return barrier(2 * kQStages + 2 * kStages + stage); }
  __device__ __forceinline__ Barrier v_free(int stage) const { return barrier(2 * kQStages + 3 * kStages + stage); }
  // The tile whose Q a stage holds.
  __device__ __forceinline__ std::uint32_t place(int stage) const { return at(kPlaces + stage * 16); }

  __device__ __forceinline__ void begin_barriers() const {
    const auto begin = [](Barrier full, Barrier free, int pieces) {
      full.begin(kThreads * pieces);
      free.begin(128 * kShape.consumers);
    };
    for (int stage = 0; stage < kQStages; ++stage) begin(q_full(stage), q_free(stage), 1);
    for (int stage = 0; stage < kStages; ++stage) {
      begin(k_full(stage), k_free(stage), kPieces);
      begin(v_full(stage), v_free(stage), kPieces);
    }
  }

 private:
  __device__ __forceinline__ std::uint32_t at(std::uint32_t bytes) const { return base + bytes; }
  __device__ static __forceinline__ std::uint32_t at_stage(int stage, std::uint32_t bytes) {
    return static_cast<std::uint32_t>(stage) * bytes;
  }
  __device__ __forceinline__ Barrier barrier(int index) const {
    return {at(kBarriers + static_cast<std::uint32_t>(index) * 8)};
  }
};

}  // namespace strobe::cuda::sm90
