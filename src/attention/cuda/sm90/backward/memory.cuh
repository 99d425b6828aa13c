// Shared-memory layout of the Hopper backward for head dimensions up to 128. Used by producer, consumers and reducer.
#pragma once

#include "attention/cuda/sm90/backward/config.h"
#include "attention/cuda/sm90/device/barrier.cuh"
#include "attention/cuda/sm90/device/wgmma.cuh"

namespace strobe::cuda::sm90 {

template <int kD, BackwardShape kShape, bool kHasBias = false>
struct BackwardMemory {
  static constexpr int kRows = kShape.rows, kKeys = kShape.keys, kStages = stages_of(kShape);
  static constexpr int kReaders = sharers_of(kShape);  // warpgroups that read a stage
  static constexpr std::uint32_t kKeyBytes = kSlabsBytes<kKeys, kD>, kRowBytes = kSlabsBytes<kRows, kD>,
                                 kScoreBytes =
                                     transposes_dq(kRows) ? kSlabsBytes<kRows, kKeys> : kSlabsBytes<kKeys, kRows>,
                                 kFactBytes = kRows * 8;
  static constexpr bool kReducesInBulk = reduces_in_bulk(kShape);
  static constexpr std::uint32_t kDqBytes =
      kReducesInBulk ? kRows * kD * 4 / kBackwardConsumers : 0;  // bytes per consumer
  static constexpr std::uint32_t kBiasBytes = kRows * kKeys * 2;
  std::uint32_t base = shared_base();

  __device__ __forceinline__ std::uint32_t k() const { return base; }              // [keys][kD]
  __device__ __forceinline__ std::uint32_t v() const { return base + kKeyBytes; }  // [keys][kD]
  // [rows][kD]
  __device__ __forceinline__ std::uint32_t q(int stage) const { return base + kRowsAt + stage * kRowBytes; }
  __device__ __forceinline__ std::uint32_t d_o(int stage) const { return q(kStages + stage); }
  // dS, [keys][rows], or [rows][keys] if transposes_dq(). Row tiles alternate between buffers 0 and 1; with
  // Share::tiles the second warpgroup uses 2 and 3.
  __device__ __forceinline__ std::uint32_t gradients(int buffer) const {
    return base + kScoresAt + buffer * kScoreBytes;
  }
  // A consumer's half of dQ of the row tile, in register order.
  __device__ __forceinline__ std::uint32_t dq(int consumer) const {
    return base + kDqAt + static_cast<std::uint32_t>(consumer) * kDqBytes;
  }
  // kHasBias: [rows][keys].
  __device__ __forceinline__ std::uint32_t bias(int stage) const {
    return base + kBiasAt + static_cast<std::uint32_t>(stage) * kBiasBytes;
  }
  __device__ __forceinline__ std::uint32_t lse(int stage) const { return base + kFactsAt + stage * kFactBytes; }
  __device__ __forceinline__ std::uint32_t delta(int stage) const { return lse(stage) + kRows * 4; }
  __device__ __forceinline__ std::uint32_t work_index(int stage) const { return base + kBarriersAt + 192 + stage * 4; }

  // "full": the data has arrived. "free" (empty): all readers have finished.
  __device__ __forceinline__ Barrier k_full() const { return barrier(0); }
  __device__ __forceinline__ Barrier v_full() const { return barrier(1); }
  __device__ __forceinline__ Barrier keys_free() const { return barrier(2); }
  __device__ __forceinline__ Barrier q_full(int stage) const { return barrier(3 + stage); }
  __device__ __forceinline__ Barrier q_free(int stage) const { return barrier(3 + kStages + stage); }
  __device__ __forceinline__ Barrier d_o_full(int stage) const { return barrier(3 + 2 * kStages + stage); }
  __device__ __forceinline__ Barrier d_o_free(int stage) const { return barrier(3 + 3 * kStages + stage); }
  __device__ __forceinline__ Barrier work_full(int stage) const { return barrier(3 + 4 * kStages + stage); }
  __device__ __forceinline__ Barrier work_free(int stage) const { return barrier(5 + 4 * kStages + stage); }

  // Share::tiles: completes when every consumer thread has stored its sums for the other warpgroup. It is an mbarrier,
  // because with a named barrier racecheck reports hazards in packed batches.
  __device__ __forceinline__ Barrier exchanged() const { return barrier(7 + 4 * kStages); }

  // kReducesInBulk. dq_full: a consumer has written its half of dQ. dq_free: the bulk reduction has read it.
  __device__ __forceinline__ Barrier dq_full(int consumer) const { return barrier(8 + 4 * kStages + consumer); }
  __device__ __forceinline__ Barrier dq_free(int consumer) const { return barrier(10 + 4 * kStages + consumer); }

  // kReducesInBulk: barriers of the RowTileNotes that the producer sends to the reducer; two may be in flight.
  __device__ __forceinline__ Barrier note_full(int stage) const { return barrier(12 + 4 * kStages + stage); }
  __device__ __forceinline__ Barrier note_free(int stage) const { return barrier(14 + 4 * kStages + stage); }
  __device__ __forceinline__ std::uint32_t note(int stage) const { return base + kBarriersAt + 208 + stage * 16; }

  __device__ __forceinline__ Barrier bias_full(int stage) const {
    return {base + kBiasBarriersAt + static_cast<std::uint32_t>(stage) * 8};
  }
  __device__ __forceinline__ Barrier bias_free(int stage) const {
    return {base + kBiasBarriersAt + 16 + static_cast<std::uint32_t>(stage) * 8};
  }

  __device__ __forceinline__ void begin_barriers() const {
    k_full().begin(1);
    v_full().begin(1);
    // Share::tiles: every thread arrives, after the exchange of sums. q_free below gives the reason.
    keys_free().begin(kBackwardConsumers * (kShape.share == Share::tiles ? 128 : 1));
    for (int stage = 0; stage < kStages; ++stage) {
      q_full(stage).begin(33);              // the TMA arrival, and one per lane of the warp that stores LSE and delta
      q_free(stage).begin(kReaders * 128);  // every thread: racecheck does not follow an arrival on behalf of others
      d_o_full(stage).begin(1);
      d_o_free(stage).begin(kReaders);
    }
    for (int stage = 0; stage < 2; ++stage) {
      work_full(stage).begin(1);
      work_free(stage).begin(kBackwardConsumers * 128);
    }
    if constexpr (kHasBias) {
      for (int stage = 0; stage < kBiasStages; ++stage) {
        bias_full(stage).begin(1);
        bias_free(stage).begin(kBackwardConsumers * 128);
      }
    }
    exchanged().begin(kBackwardConsumers * 128);
    if constexpr (kReducesInBulk) {
      for (int consumer = 0; consumer < kBackwardConsumers; ++consumer) {
        dq_full(consumer).begin(128);
        dq_free(consumer).begin(1);
        note_full(consumer).begin(1);
        note_free(consumer).begin(1);
      }
    }
    publish_barriers();
  }

 private:
  static constexpr std::uint32_t kRowsAt = 2 * kKeyBytes, kScoresAt = kRowsAt + 2 * kStages * kRowBytes,
                                 kDqAt = kScoresAt + score_places(kShape) * kScoreBytes,
                                 kBiasAt = kDqAt + kBackwardConsumers * kDqBytes,
                                 kFactsAt = kBiasAt + (kHasBias ? kBiasStages * kBiasBytes : 0),
                                 kBarriersAt = kFactsAt + kStages * kFactBytes,
                                 kBiasBarriersAt = kBarriersAt + kBackwardBarrierBytes;
  static_assert(kBiasAt % 1024 == 0);
  static_assert(kBiasBarriersAt + (kHasBias ? kBiasBarrierBytes : 0) ==
                    backward_shared_bytes(kD, kShape) + (kHasBias ? bias_shared_bytes(kShape) : 0) &&
                (kReducesInBulk ? 16 : 8) + 4 * kStages <= 24);

  __device__ __forceinline__ Barrier barrier(int index) const {
    return {base + kBarriersAt + static_cast<std::uint32_t>(index) * 8};
  }
};

}  // namespace strobe::cuda::sm90
