// Shared-memory layout of the Hopper forward: stages, barriers and exchange buffer. Used by producer and consumers.
#pragma once

#include "attention/cuda/sm90/device/barrier.cuh"
#include "attention/cuda/sm90/device/wgmma.cuh"
#include "attention/cuda/sm90/forward/config.h"

namespace strobe::cuda::sm90 {

template <int kD, int kDv, ForwardShape kShape>
struct ForwardMemory {
  static constexpr int kRows = rows_of(kShape), kKeys = kShape.keys, kStages = kShape.stages;
  static constexpr int kQStages = kShape.q_stages;
  static constexpr bool kMovesRegisters = moves_registers(kShape);
  static constexpr int kConsumerRegisters = consumer_registers(kShape), kProducerRegisters = producer_registers(kShape);
  static constexpr std::uint32_t kQBytes = kSlabsBytes<kRows, kD>, kKBytes = kSlabsBytes<kKeys, kD>,
                                 kVBytes = kSlabsBytes<kKeys, kDv>;
  static constexpr std::uint32_t kBarrierBytes = forward_barriers(kShape) * 8;
  // Pipelines of K and of V. Two warpgroups that share rows have one pipeline each, with half of the stages.
  static constexpr int kPipelines = kShape.shares ? 2 : 1, kPipelineStages = kStages / kPipelines;
  static_assert(!kShape.shares || (kShape.consumers == 2 && kStages % 2 == 0 && !kShape.passes));
  std::uint32_t base = shared_base();

  __device__ __forceinline__ std::uint32_t q(int stage) const { return base + stage * kQBytes; }
  __device__ __forceinline__ std::uint32_t k(int stage) const { return q(kQStages) + stage * kKBytes; }
  __device__ __forceinline__ std::uint32_t v(int stage) const { return k(kStages) + stage * kVBytes; }
  // "full": the TMA load is complete. "free" (empty): all consumers of the pipeline have read the stage.
  __device__ __forceinline__ Barrier q_full(int stage) const { return barrier(stage); }
  __device__ __forceinline__ Barrier q_free(int stage) const { return barrier(kQStages + stage); }
  __device__ __forceinline__ Barrier k_full(int stage) const { return barrier(2 * kQStages + stage); }
  __device__ __forceinline__ Barrier k_free(int stage) const { return barrier(2 * kQStages + kStages + stage); }
  __device__ __forceinline__ Barrier v_full(int stage) const { return barrier(2 * kQStages + 2 * kStages + stage); }
  __device__ __forceinline__ Barrier v_free(int stage) const { return barrier(2 * kQStages + 3 * kStages + stage); }
  // WorkTile of the row tile whose Q the stage holds, 16 bytes.
  __device__ __forceinline__ std::uint32_t work_tile(int stage) const {
    return v(kStages) + kBarrierBytes + static_cast<std::uint32_t>(stage) * 16;
  }

  // Exchange buffer of shared rows, in groups of four floats per thread: maxima and sums, then O.
  __device__ __forceinline__ std::uint32_t shared_rows() const { return work_tile(kQStages); }

  // Kernels with a bias: its tile, kRows * kKeys * 2 bytes. These kernels do not share rows.
  __device__ __forceinline__ std::uint32_t bias() const { return shared_rows(); }

  __device__ __forceinline__ void begin_barriers() const {
    for (int stage = 0; stage < kQStages; ++stage) {
      q_full(stage).begin(1);
      // per consumer: the four warps that read the WorkTile, and one thread after the last MMA with Q
      q_free(stage).begin(kShape.consumers * 5);
    }
    for (int stage = 0; stage < kStages; ++stage) {
      k_full(stage).begin(1);
      v_full(stage).begin(1);
      k_free(stage).begin(kShape.consumers / kPipelines);
      v_free(stage).begin(kShape.consumers / kPipelines);
    }
    publish_barriers();
  }

 private:
  __device__ __forceinline__ Barrier barrier(int index) const {
    return {v(kStages) + static_cast<std::uint32_t>(index) * 8};
  }
};

}  // namespace strobe::cuda::sm90
