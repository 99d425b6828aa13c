// Where things lie in a block's shared memory in the Hopper backward for fp32.
#pragma once

#include "attention/cuda/sm90/backward_fp32/config.h"
#include "attention/cuda/sm90/device/barrier.cuh"
#include "attention/cuda/sm90/device/wgmma.cuh"

namespace strobe::cuda::sm90 {

template <int kD>
struct Fp32BackwardMemory {
  static constexpr BackwardShape kShape = fp32_backward_shape(kD);
  static constexpr int kRows = kShape.rows, kKeys = kShape.keys, kStages = kBackwardStages;
  // Both parts of a tile.
  static constexpr std::uint32_t kKeyBytes = kKeys * fp32_part_bytes(kD), kRowBytes = kRows * fp32_part_bytes(kD),
                                 kFactBytes = fp32_fact_bytes(kShape);
  std::uint32_t base = shared_base();

  __device__ __forceinline__ std::uint32_t k() const { return base; }              // [2 parts][keys][kD]
  __device__ __forceinline__ std::uint32_t v() const { return base + kKeyBytes; }  // [2 parts][keys][kD]
  // [2 parts][rows][kD]
  __device__ __forceinline__ std::uint32_t q(int stage) const { return base + kRowsAt + at_stage(stage, kRowBytes); }
  __device__ __forceinline__ std::uint32_t d_o(int stage) const { return q(kStages + stage); }
  // Of scores of a warpgroup's keys, [2 parts][64 keys][rows].
  __device__ __forceinline__ std::uint32_t gradients(int consumer) const {
    return base + kGradientsAt + at_stage(consumer, 2 * kFp32GradientBytes);
  }
  // By row: sm80::RowFacts. Behind them what brings Q, dO, K and V back to their size.
  __device__ __forceinline__ std::uint32_t facts(int stage) const {
    return base + kFactsAt + at_stage(stage, kFactBytes);
  }
  __device__ __forceinline__ std::uint32_t q_scale(int stage) const { return facts(stage) + 16 * kRows; }
  __device__ __forceinline__ std::uint32_t d_o_scale(int stage) const { return q_scale(stage) + 4; }
  __device__ __forceinline__ std::uint32_t k_scale(int stage) const { return q_scale(stage) + 8; }
  __device__ __forceinline__ std::uint32_t v_scale(int stage) const { return q_scale(stage) + 12; }
  // A word for each warp of a warpgroup.
  __device__ __forceinline__ std::uint32_t sizes(int consumer) const {
    return base + kBarriersAt + 128 + at_stage(consumer, 16);
  }
  // Two words for each warpgroup: from which row on, and before which, no row of a tile is masked.
  __device__ __forceinline__ std::uint32_t unmasked_rows(int consumer) const {
    return base + kBarriersAt + 160 + at_stage(consumer, 8);
  }
  __device__ __forceinline__ std::uint32_t ticket(int stage) const {
    return base + kBarriersAt + 192 + at_stage(stage, 4);
  }

  // "full": bytes have come. "free": all threads that multiply have read.
  __device__ __forceinline__ Barrier keys_full() const { return barrier(0); }
  __device__ __forceinline__ Barrier keys_free() const { return barrier(1); }
  __device__ __forceinline__ Barrier rows_full(int stage) const { return barrier(2 + stage); }
  __device__ __forceinline__ Barrier rows_free(int stage) const { return barrier(2 + kStages + stage); }
  __device__ __forceinline__ Barrier ticket_full(int stage) const { return barrier(2 + 2 * kStages + stage); }
  __device__ __forceinline__ Barrier ticket_free(int stage) const { return barrier(4 + 2 * kStages + stage); }

  __device__ __forceinline__ void begin_barriers() const {
    constexpr int kReaders = kBackwardConsumers * 128;
    keys_full().begin(1);
    keys_free().begin(kReaders);
    for (int stage = 0; stage < kStages; ++stage) {
      rows_full(stage).begin(33);  // the copies, and a warp's ordinary stores
      rows_free(stage).begin(kReaders);
    }
    for (int stage = 0; stage < 2; ++stage) {
      ticket_full(stage).begin(1);
      ticket_free(stage).begin(kReaders);
    }
    publish_barriers();
  }

 private:
  static constexpr std::uint32_t kRowsAt = 2 * kKeyBytes, kGradientsAt = kRowsAt + 2 * kStages * kRowBytes,
                                 kFactsAt = kGradientsAt + kBackwardConsumers * 2 * kFp32GradientBytes,
                                 kBarriersAt = kFactsAt + kStages * kFactBytes;
  static_assert(kBarriersAt + 256 == fp32_backward_shared_bytes(kD, kShape) && 6 + 2 * kStages <= 16);

  __device__ static __forceinline__ std::uint32_t at_stage(int stage, std::uint32_t bytes) {
    return static_cast<std::uint32_t>(stage) * bytes;
  }
  __device__ __forceinline__ Barrier barrier(int index) const {
    return {base + kBarriersAt + static_cast<std::uint32_t>(index) * 8};
  }
};

}  // namespace strobe::cuda::sm90
