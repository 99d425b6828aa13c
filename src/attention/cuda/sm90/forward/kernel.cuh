// Forward on wgmma and the copy engine. One warp loads tiles of Q, K and V; two or three warpgroups multiply, each with
// 64 rows of the block's tile. A warpgroup starts the scores of the next tile of keys before the output product of the
// last one, so that its exponentials run under that product. Keys are visited from the right, so that masked tiles come
// first.
#pragma once

#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/sm90/device/barrier.cuh"
#include "attention/cuda/sm90/device/clear.cuh"
#include "attention/cuda/sm90/device/load.cuh"
#include "attention/cuda/sm90/device/store.cuh"
#include "attention/cuda/sm90/device/tile_order.h"
#include "attention/cuda/sm90/device/wgmma.cuh"
#include "attention/cuda/sm90/forward/args.h"
#include "attention/cuda/sm90/forward/config.h"

namespace strobe::cuda::sm90 {

// Where things lie in the block's shared memory.
template <int kD, int kDv, bool kLarge>
struct ForwardMemory {
  static constexpr ForwardShape kShape = forward_shape({kD, kDv}, kLarge);
  static constexpr int kRows = rows_of(kShape), kKeys = kShape.keys, kStages = kShape.stages;
  static constexpr int kQStages = kShape.q_stages;
  static constexpr int kThreads = threads_of(kShape), kConsumerRegisters = consumer_registers(kShape),
                       kProducerRegisters = producer_registers(kShape);
  static constexpr std::uint32_t kQBytes = kSlabsBytes<kRows, kD>, kKBytes = kSlabsBytes<kKeys, kD>,
                                 kVBytes = kSlabsBytes<kKeys, kDv>;
  std::uint32_t base = shared_base();

  __device__ __forceinline__ std::uint32_t q(int stage) const { return base + stage * kQBytes; }
  __device__ __forceinline__ std::uint32_t k(int stage) const { return q(kQStages) + stage * kKBytes; }
  __device__ __forceinline__ std::uint32_t v(int stage) const { return k(kStages) + stage * kVBytes; }
  // "full": bytes have come. "free": all consumers have read.
  __device__ __forceinline__ Barrier q_full(int stage) const { return barrier(stage); }
  __device__ __forceinline__ Barrier q_free(int stage) const { return barrier(2 + stage); }
  __device__ __forceinline__ Barrier k_full(int stage) const { return barrier(4 + stage); }
  __device__ __forceinline__ Barrier k_free(int stage) const { return barrier(4 + kStages + stage); }
  __device__ __forceinline__ Barrier v_full(int stage) const { return barrier(4 + 2 * kStages + stage); }
  __device__ __forceinline__ Barrier v_free(int stage) const { return barrier(4 + 3 * kStages + stage); }
  // The tile whose Q a stage holds.
  __device__ __forceinline__ std::uint32_t place(int stage) const {
    return v(kStages) + 128 + static_cast<std::uint32_t>(stage) * 16;
  }

  __device__ __forceinline__ void begin_barriers() const {
    for (int stage = 0; stage < kQStages; ++stage) {
      q_full(stage).begin(1);
      q_free(stage).begin(kShape.consumers);
    }
    for (int stage = 0; stage < kStages; ++stage) {
      k_full(stage).begin(1);
      v_full(stage).begin(1);
      k_free(stage).begin(kShape.consumers);
      v_free(stage).begin(kShape.consumers);
    }
    publish_barriers();
  }

 private:
  __device__ __forceinline__ Barrier barrier(int index) const {
    return {v(kStages) + static_cast<std::uint32_t>(index) * 8};
  }
};

// A tile's sequence, rows and tiles of keys [begin, end).
template <int kRows, int kKeys>
struct ForwardWork {
  Sequence sequence;
  int first_row, rows_written, begin = 0, end = 0;

  __device__ __forceinline__ ForwardWork(const Params& p, const TilePlace& place)
      : sequence(p, place.b), first_row(place.tile * kRows), rows_written(sequence.rows_written(p)) {
    if (first_row >= sequence.q_length) return;
    const Keys some = sequence.some(first_row, min(first_row + kRows, sequence.q_length) - 1);
    if (some.lo >= some.hi) return;
    begin = some.lo / kKeys;
    end = (some.hi + kKeys - 1) / kKeys;
  }
};

// Scores that are not there become -infinity. keys: what this thread's two rows may use; column: its first key.
template <int kKeys>
__device__ __forceinline__ void mask_scores(float (&s)[kKeys / 2], const Keys (&keys)[2], int column) {
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int j = column + n * 8 + e % 2;
      if (j < keys[e / 2].lo || j >= keys[e / 2].hi) s[4 * n + e] = kMinusInfinity;
    }
  }
}

// Running maximum (in units of the scores) and sum (of this thread's columns) of a thread's two rows.
struct TwoRows {
  float maximum[2] = {kMinusInfinity, kMinusInfinity}, sum[2] = {0, 0};

  // Scores become weights relative to the new maximum; what was accumulated before must be multiplied with `shrink`.
  // Both rows at a time: one after the other, additions would wait for each other.
  template <int kCount>
  __device__ __forceinline__ void weigh(float (&s)[kCount], float factor, float (&shrink)[2]) {
    float highest[2] = {s[0], s[2]}, scaled_base[2], total[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < kCount; ++i) highest[i / 2 % 2] = fmaxf(highest[i / 2 % 2], s[i]);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      highest[h] = quad_max(fmaxf(maximum[h], highest[h]));
      const float base = highest[h] == kMinusInfinity ? 0 : highest[h];  // a row without a key so far
      shrink[h] = exp2_fast((maximum[h] - base) * factor);
      maximum[h] = highest[h];
      scaled_base[h] = base * factor;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      s[i] = exp2_fast(s[i] * factor - scaled_base[i / 2 % 2]);
      total[i / 2 % 2] += s[i];
    }
    sum[0] = sum[0] * shrink[0] + total[0];
    sum[1] = sum[1] * shrink[1] + total[1];
  }
};

template <class T, int kD, int kDv, bool kLarge>
__device__ __forceinline__ void load_tiles(const ForwardArgs& args, const ForwardMemory<kD, kDv, kLarge>& memory) {
  using Memory = ForwardMemory<kD, kDv, kLarge>;
  constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys;
  const Params& p = args.params;
  RingPlace<Memory::kQStages> q_at;
  RingPlace<Memory::kStages> k_at, v_at;
  std::uint32_t index = args.order.index(0);
  for (std::uint32_t n = 1;; ++n) {
    const TilePlace place = args.order.at(index);
    if (place.b >= 0) index = args.order.index(n);
    const auto begin_tile = [&](std::uint32_t bytes) {
      memory.q_free(q_at.stage).wait(q_at.parity ^ 1);
      store_place(memory.place(q_at.stage), place);
      memory.q_full(q_at.stage).arrive_expecting(bytes);
    };
    if (place.b < 0) {
      begin_tile(0);
      return;
    }
    const ForwardWork<kRows, kKeys> work(p, place);
    if (work.begin == work.end) {
      begin_tile(0);
      q_at.move();
      continue;
    }
    const int batch = p.packed ? 0 : place.b, head_kv = place.head / p.group;
    const int q_row = static_cast<int>(work.sequence.q_begin) + work.first_row;
    const int k_row = static_cast<int>(work.sequence.k_begin);
    const auto load_k = [&](int tile) {
      memory.k_free(k_at.stage).wait(k_at.parity ^ 1);
      memory.k_full(k_at.stage).arrive_expecting(Memory::kKBytes);
      copy_tile<kKeys, kD>(memory.k(k_at.stage), args.k, k_row + tile * kKeys, head_kv, batch,
                           memory.k_full(k_at.stage));
      k_at.move();
    };
    const auto load_v = [&](int tile) {
      memory.v_free(v_at.stage).wait(v_at.parity ^ 1);
      memory.v_full(v_at.stage).arrive_expecting(Memory::kVBytes);
      copy_tile<kKeys, kDv>(memory.v(v_at.stage), args.v, k_row + tile * kKeys, head_kv, batch,
                            memory.v_full(v_at.stage));
      v_at.move();
    };
    load_k(work.end - 1);
    begin_tile(Memory::kQBytes);
    copy_tile<kRows, kD>(memory.q(q_at.stage), args.q, q_row, place.head, batch, memory.q_full(q_at.stage));
    q_at.move();
    for (int tile = work.end - 2; tile >= work.begin; --tile) {
      load_k(tile);
      load_v(tile + 1);
    }
    load_v(work.begin);
  }
}

// Normalises and writes O and LSE of this thread's two rows.
template <class T, int kDv, class Work>
__device__ __forceinline__ void finish_tile(const Params& p, const TilePlace& place, const Work& work, int row,
                                            const TwoRows& softmax, float unit, float (&o)[kDv / 2]) {
  const Sequence& sequence = work.sequence;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int i = row + 8 * h;
    const float sum = quad_sum(softmax.sum[h]);
    const Keys keys = sequence.allowed(i);
    const bool has_keys = i < sequence.q_length && keys.lo < keys.hi;
    const float* sink = p.sinks ? p.sinks + place.head : nullptr;
    const RowResult result = finish_row(multiply_rounded(softmax.maximum[h], unit), sum, has_keys, sink);
#pragma unroll
    for (int c = 0; c < kDv / 8; ++c) {
      o[4 * c + 2 * h] = result.inverse == 0 ? 0 : o[4 * c + 2 * h] * result.inverse;
      o[4 * c + 2 * h + 1] = result.inverse == 0 ? 0 : o[4 * c + 2 * h + 1] * result.inverse;
    }
    if (p.lse && lane_index() % 4 == 0 && i < work.rows_written) {
      p.lse[lse_index(p, sequence, place.b, place.head, i)] = result.lse;
    }
  }
  std::uint16_t* to = static_cast<std::uint16_t*>(p.o.data) + head_offset(p.o, place.b, place.head, sequence.q_begin);
  store_two_rows<T, kDv>(o, to, p.o.row, p.dv_dim, row, work.rows_written);
}

template <class T, int kD, int kDv, bool kLarge>
__device__ __forceinline__ void attend_tiles(const ForwardArgs& args, const ForwardMemory<kD, kDv, kLarge>& memory,
                                             int consumer) {
  using Memory = ForwardMemory<kD, kDv, kLarge>;
  constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys, kConsumers = Memory::kShape.consumers;
  using Work = ForwardWork<kRows, kKeys>;
  const Params& p = args.params;
  // Scores, capped or not, times this are logits.
  const float unit = p.softcap != 0 ? p.softcap : p.scale, factor = unit * kLog2E;
  const int lane = lane_index(), thread = static_cast<int>(threadIdx.x) % 128;
  const int lane_row = consumer * 64 + thread / 32 * 16 + lane / 4;  // and 8 below
  // One thread speaks for its warpgroup at the producer's barriers: a product runs when all four warps have started it,
  // so once it is done none of them has yet to see the stages that it read come.
  const bool speaks = thread == 0;
  RingPlace<Memory::kQStages> q_at;
  RingPlace<Memory::kStages> k_at, v_at;

  float s[kKeys / 2], o[kDv / 2];
  std::uint32_t weights[kKeys / 4];
  const auto start_scores = [&] {
    memory.k_full(k_at.stage).wait(k_at.parity);
    wgmma_begin();
    multiply_nt<T, kKeys, kD, kRows>(s, memory.q(q_at.stage) + static_cast<std::uint32_t>(consumer) * 64 * 128,
                                     memory.k(k_at.stage), false);
    wgmma_commit();
  };
  const auto release_k = [&] {
    if (speaks) memory.k_free(k_at.stage).arrive();
    k_at.move();
  };
  const auto release_q = [&] {
    if (speaks) memory.q_free(q_at.stage).arrive();
    q_at.move();
  };
  const auto start_output = [&](bool accumulate) {
    memory.v_full(v_at.stage).wait(v_at.parity);
    wgmma_begin();
    multiply_nn<T, kDv, kKeys>(o, weights, memory.v(v_at.stage), accumulate);
    wgmma_commit();
  };
  const auto release_v = [&] {
    if (speaks) memory.v_free(v_at.stage).arrive();
    v_at.move();
  };

  for (;;) {
    memory.q_full(q_at.stage).wait(q_at.parity);
    const TilePlace place = load_place(memory.place(q_at.stage));
    if (place.b < 0) return;
    const Work work(p, place);
    const Sequence& sequence = work.sequence;
    const int row = work.first_row + lane_row;
    TwoRows softmax;
    if (work.begin == work.end) {
      barrier_sync(1 + consumer, 128);  // products keep its warps in step; here there are none
      release_q();
      finish_tile<T, kDv>(p, place, work, row, softmax, unit, o);
      continue;
    }
    // Keys that all of this warpgroup's rows may use.
    const int first = work.first_row + consumer * 64;
    const Keys unmasked = sequence.all(first, min(first + 63, sequence.q_length - 1));
    float shrink[2];
    const auto weigh = [&](int tile) {
      if (p.softcap != 0) {
        const float inner = p.scale / p.softcap;
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) s[i] = tanh_fast(s[i] * inner);
      }
      if (tile * kKeys < unmasked.lo || (tile + 1) * kKeys > unmasked.hi) {
        const Keys allowed[2] = {sequence.allowed(row), sequence.allowed(row + 8)};
        mask_scores<kKeys>(s, allowed, tile * kKeys + lane % 4 * 2);
      }
      softmax.weigh(s, factor, shrink);
    };

    start_scores();
    wgmma_wait<0>(s);
    release_k();
    weigh(work.end - 1);
    round_to_operand<T>(weights, s);
    const int keys_left = sequence.k_length - (work.end - 1) * kKeys;
    if (keys_left < kKeys && (p.packed || p.lengths_k.data)) {
      memory.v_full(v_at.stage).wait(v_at.parity);
      clear_rows_from<kKeys, kDv, kConsumers>(memory.v(v_at.stage), keys_left, consumer * 128 + thread);
    }
    bool accumulate = false;
    for (int tile = work.end - 2; tile >= work.begin; --tile) {
      start_scores();
      start_output(accumulate);
      accumulate = true;
      wgmma_wait<1>(s);
      release_k();
      weigh(tile);
      wgmma_wait<0>(o, weights);
      release_v();
#pragma unroll
      for (int i = 0; i < kDv / 2; ++i) o[i] *= shrink[i / 2 % 2];
      round_to_operand<T>(weights, s);
    }
    release_q();
    start_output(accumulate);
    wgmma_wait<0>(o, weights);
    release_v();
    finish_tile<T, kDv>(p, place, work, row, softmax, unit, o);
  }
}

template <class T, int kD, int kDv, bool kLarge>
__global__ void __launch_bounds__(ForwardMemory<kD, kDv, kLarge>::kThreads, 1)
    forward_kernel(const __grid_constant__ ForwardArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Memory = ForwardMemory<kD, kDv, kLarge>;
  const Memory memory;
  if (threadIdx.x == 0) {
    prefetch_map(args.q);
    prefetch_map(args.k);
    prefetch_map(args.v);
    memory.begin_barriers();
  }
  block_sync();
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  if (warpgroup == 0) {
    give_registers<Memory::kProducerRegisters>();
    if (threadIdx.x < 32 && elect()) load_tiles<T, kD, kDv, kLarge>(args, memory);
  } else {
    take_registers<Memory::kConsumerRegisters>();
    attend_tiles<T, kD, kDv, kLarge>(args, memory, warpgroup - 1);
  }
#endif
}

}  // namespace strobe::cuda::sm90
