// Forward on wgmma and the copy engine. One warp loads tiles of Q, K and V; two or three warpgroups multiply, each with
// 64 rows of the block's tile. A warpgroup starts the scores of the next tile of keys before the output product of the
// last one, so that its exponentials run under that product; and warpgroups take turns at starting products, so that
// one's exponentials run under another's. Keys are visited from the right, so that masked tiles come first.
#pragma once

#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/sm90/device/barrier.cuh"
#include "attention/cuda/sm90/device/store.cuh"
#include "attention/cuda/sm90/device/tile_order.cuh"
#include "attention/cuda/sm90/device/wgmma.cuh"
#include "attention/cuda/sm90/forward/args.h"
#include "attention/cuda/sm90/forward/config.h"

namespace strobe::cuda::sm90 {

// Where things lie in the block's shared memory.
template <int kD, int kDv>
struct ForwardMemory {
  static constexpr ForwardShape kShape = forward_shape({kD, kDv});
  static constexpr int kRows = rows_of(kShape), kKeys = kShape.keys, kStages = kShape.stages;
  static constexpr int kThreads = threads_of(kShape), kConsumerRegisters = consumer_registers(kShape),
                       kProducerRegisters = producer_registers(kShape);
  static constexpr std::uint32_t kQBytes = kSlabsBytes<kRows, kD>, kKBytes = kSlabsBytes<kKeys, kD>,
                                 kVBytes = kSlabsBytes<kKeys, kDv>;
  std::uint32_t base = shared_base();

  __device__ __forceinline__ std::uint32_t q() const { return base; }
  __device__ __forceinline__ std::uint32_t k(int stage) const { return base + kQBytes + stage * kKBytes; }
  __device__ __forceinline__ std::uint32_t v(int stage) const {
    return base + kQBytes + kStages * kKBytes + stage * kVBytes;
  }
  // "full": bytes have come. "free": all consumers have read.
  __device__ __forceinline__ Barrier q_full() const { return barrier(0); }
  __device__ __forceinline__ Barrier q_free() const { return barrier(1); }
  __device__ __forceinline__ Barrier k_full(int stage) const { return barrier(2 + stage); }
  __device__ __forceinline__ Barrier k_free(int stage) const { return barrier(2 + kStages + stage); }
  __device__ __forceinline__ Barrier v_full(int stage) const { return barrier(2 + 2 * kStages + stage); }
  __device__ __forceinline__ Barrier v_free(int stage) const { return barrier(2 + 3 * kStages + stage); }

  __device__ __forceinline__ void begin_barriers() const {
    q_full().begin(1);
    q_free().begin(kShape.consumers);
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
    return {base + kQBytes + kStages * (kKBytes + kVBytes) + static_cast<std::uint32_t>(index) * 8};
  }
};

// A place in a ring of stages, and the parity of its phase.
template <int kStages>
struct RingPlace {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ __forceinline__ void move() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
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

// Scores of 64 rows, two to a thread, become weights. `limit` is what a row may see.
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
  template <int kCount>
  __device__ __forceinline__ void weigh(float (&s)[kCount], float factor, float (&shrink)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float highest = maximum[h];
#pragma unroll
      for (int n = 0; n < kCount / 4; ++n) highest = fmaxf(highest, fmaxf(s[4 * n + 2 * h], s[4 * n + 2 * h + 1]));
      highest = quad_max(highest);
      const float base = highest == kMinusInfinity ? 0 : highest;  // a row without a key so far
      shrink[h] = exp2_fast((maximum[h] - base) * factor);
      maximum[h] = highest;
      const float scaled_base = base * factor;
      float total = sum[h] * shrink[h];
#pragma unroll
      for (int n = 0; n < kCount / 4; ++n) {
#pragma unroll
        for (int e = 4 * n + 2 * h; e < 4 * n + 2 * h + 2; ++e) {
          s[e] = exp2_fast(s[e] * factor - scaled_base);
          total += s[e];
        }
      }
      sum[h] = total;
    }
  }
};

// Accumulators, rounded, as the A operand of the next product.
template <class T, int kCount>
__device__ __forceinline__ void round_to_operand(std::uint32_t (&a)[kCount / 2], const float (&c)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) a[i] = pack<T>(c[2 * i], c[2 * i + 1]);
}

template <class T, int kD, int kDv>
__device__ __forceinline__ void load_tiles(const ForwardArgs& args, const ForwardMemory<kD, kDv>& memory) {
  using Memory = ForwardMemory<kD, kDv>;
  constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys;
  const Params& p = args.params;
  const TileOrder order{static_cast<unsigned>(p.heads_q), static_cast<unsigned>(args.row_tiles),
                        static_cast<unsigned>(args.section_heads), static_cast<unsigned>(p.batch * p.heads_q)};
  RingPlace<Memory::kStages> k_at, v_at;
  std::uint32_t q_parity = 0;
  TilePlace place;
  for (unsigned n = 0; order.get(n, place); ++n) {
    const ForwardWork<kRows, kKeys> work(p, place);
    if (work.begin == work.end) continue;
    const int batch = p.packed ? 0 : place.b, head_kv = place.head / p.group;
    const int q_row = static_cast<int>(work.sequence.q_begin) + work.first_row;
    const int k_row = static_cast<int>(work.sequence.k_begin);
    memory.q_free().wait(q_parity ^ 1);
    memory.q_full().arrive_expecting(Memory::kQBytes);
    q_parity ^= 1;
#pragma unroll
    for (int c = 0; c < kD; c += 64) {
      copy_box(memory.q() + c / 64 * kSlabBytes<kRows>, args.q, c, q_row, place.head, batch, memory.q_full());
    }
    const auto load_k = [&](int tile) {
      memory.k_free(k_at.stage).wait(k_at.parity ^ 1);
      memory.k_full(k_at.stage).arrive_expecting(Memory::kKBytes);
#pragma unroll
      for (int c = 0; c < kD; c += 64) {
        copy_box(memory.k(k_at.stage) + c / 64 * kSlabBytes<kKeys>, args.k, c, k_row + tile * kKeys, head_kv, batch,
                 memory.k_full(k_at.stage));
      }
      k_at.move();
    };
    const auto load_v = [&](int tile) {
      memory.v_free(v_at.stage).wait(v_at.parity ^ 1);
      memory.v_full(v_at.stage).arrive_expecting(Memory::kVBytes);
#pragma unroll
      for (int c = 0; c < kDv; c += 64) {
        copy_box(memory.v(v_at.stage) + c / 64 * kSlabBytes<kKeys>, args.v, c, k_row + tile * kKeys, head_kv, batch,
                 memory.v_full(v_at.stage));
      }
      v_at.move();
    };
    load_k(work.end - 1);
    for (int tile = work.end - 2; tile >= work.begin; --tile) {
      load_k(tile);
      load_v(tile + 1);
    }
    load_v(work.begin);
  }
}

// Rows of V past the sequence's end are another sequence's or the caller's padding: they must not meet even a weight of
// 0. All consumers together.
template <int kKeys, int kDv, int kConsumers>
__device__ __forceinline__ void clear_rows_from(std::uint32_t v, int first, int thread) {
  constexpr int kPieces = (kDv + 63) / 64 * 8;  // of 16 bytes, to a row
  for (int at = first * kPieces + thread; at < kKeys * kPieces; at += kConsumers * 128) {
    const int row = at / kPieces, piece = at % kPieces;
    const std::uint32_t to = v + piece / 8 * kSlabBytes<kKeys> + static_cast<std::uint32_t>(row * 128 + piece % 8 * 16);
    asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
  }
  publish_stores();
  barrier_sync(8, kConsumers * 128);
}

template <class T, int kD, int kDv>
__device__ __forceinline__ void attend_tiles(const ForwardArgs& args, const ForwardMemory<kD, kDv>& memory,
                                             int consumer) {
  using Memory = ForwardMemory<kD, kDv>;
  constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys, kConsumers = Memory::kShape.consumers;
  const Params& p = args.params;
  const TileOrder order{static_cast<unsigned>(p.heads_q), static_cast<unsigned>(args.row_tiles),
                        static_cast<unsigned>(args.section_heads), static_cast<unsigned>(p.batch * p.heads_q)};
  const float factor = p.scale * kLog2E;
  const int lane = lane_index(), thread = static_cast<int>(threadIdx.x) % 128;
  const int lane_row = consumer * 64 + thread / 32 * 16 + lane / 4;  // and 8 below
  const std::uint32_t q = memory.q() + static_cast<std::uint32_t>(consumer) * 64 * 128;
  const bool speaks = thread == 0;  // for the warpgroup, at barriers of the producer
  const auto my_turn = [&] { barrier_sync(1 + consumer, 256); };
  const auto pass_turn = [&] { barrier_arrive(1 + (consumer + 1) % kConsumers, 256); };
  if (consumer == kConsumers - 1) pass_turn();

  RingPlace<Memory::kStages> k_at, v_at;
  std::uint32_t q_parity = 0;
  TilePlace place;
  for (unsigned n = 0; order.get(n, place); ++n) {
    const ForwardWork<kRows, kKeys> work(p, place);
    const Sequence& sequence = work.sequence;
    if (work.first_row >= work.rows_written) continue;
    float o[kDv / 2];
    TwoRows softmax;
    const int row = work.first_row + lane_row;
    const Keys allowed[2] = {sequence.allowed(row), sequence.allowed(row + 8)};
    if (work.begin < work.end) {
      // Keys that all of this warpgroup's rows may use.
      const int first = work.first_row + consumer * 64;
      const Keys unmasked = sequence.all(first, min(first + 63, sequence.q_length - 1));
      float s[kKeys / 2], shrink[2];
      std::uint32_t weights[kKeys / 4];
      const auto weigh = [&](int tile) {
        if (tile * kKeys < unmasked.lo || (tile + 1) * kKeys > unmasked.hi) {
          mask_scores<kKeys>(s, allowed, tile * kKeys + lane % 4 * 2);
        }
        softmax.weigh(s, factor, shrink);
      };

      memory.q_full().wait(q_parity);
      q_parity ^= 1;
      memory.k_full(k_at.stage).wait(k_at.parity);
      wgmma_begin();
      multiply_nt<T, kKeys, kD, kRows>(s, q, memory.k(k_at.stage), false);
      wgmma_commit();
      wgmma_wait<0>(s);
      if (speaks) memory.k_free(k_at.stage).arrive();
      k_at.move();
      weigh(work.end - 1);
      round_to_operand<T>(weights, s);
      const int keys_left = sequence.k_length - (work.end - 1) * kKeys;
      if (keys_left < kKeys && (p.packed || p.lengths_k.data)) {
        memory.v_full(v_at.stage).wait(v_at.parity);
        clear_rows_from<kKeys, kDv, kConsumers>(memory.v(v_at.stage), keys_left, consumer * 128 + thread);
      }

      bool started = false;  // whether o holds anything
      for (int tile = work.end - 2; tile >= work.begin; --tile) {
        memory.k_full(k_at.stage).wait(k_at.parity);
        my_turn();
        wgmma_begin();
        multiply_nt<T, kKeys, kD, kRows>(s, q, memory.k(k_at.stage), false);
        wgmma_commit();
        memory.v_full(v_at.stage).wait(v_at.parity);
        wgmma_begin();
        multiply_nn<T, kDv, kKeys>(o, weights, memory.v(v_at.stage), started);
        wgmma_commit();
        started = true;
        pass_turn();
        wgmma_wait<1>(s);
        if (speaks) memory.k_free(k_at.stage).arrive();
        k_at.move();
        weigh(tile);
        wgmma_wait<0>(o, weights);
        if (speaks) memory.v_free(v_at.stage).arrive();
        v_at.move();
#pragma unroll
        for (int i = 0; i < kDv / 2; ++i) o[i] *= shrink[i / 2 % 2];
        round_to_operand<T>(weights, s);
      }
      if (speaks) memory.q_free().arrive();
      memory.v_full(v_at.stage).wait(v_at.parity);
      wgmma_begin();
      multiply_nn<T, kDv, kKeys>(o, weights, memory.v(v_at.stage), started);
      wgmma_commit();
      wgmma_wait<0>(o, weights);
      if (speaks) memory.v_free(v_at.stage).arrive();
      v_at.move();
    }

#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int i = row + 8 * h;
      const float sum = quad_sum(softmax.sum[h]);
      const bool has_keys = i < sequence.q_length && allowed[h].lo < allowed[h].hi;
      const float* sink = p.sinks ? p.sinks + place.head : nullptr;
      const RowResult result = finish_row(multiply_rounded(softmax.maximum[h], p.scale), sum, has_keys, sink);
#pragma unroll
      for (int c = 0; c < kDv / 8; ++c) {
        o[4 * c + 2 * h] = result.inverse == 0 ? 0 : o[4 * c + 2 * h] * result.inverse;
        o[4 * c + 2 * h + 1] = result.inverse == 0 ? 0 : o[4 * c + 2 * h + 1] * result.inverse;
      }
      if (p.lse && lane % 4 == 0 && i < work.rows_written) {
        p.lse[lse_index(p, sequence, place.b, place.head, i)] = result.lse;
      }
    }
    std::uint16_t* to = static_cast<std::uint16_t*>(p.o.data) + head_offset(p.o, place.b, place.head, sequence.q_begin);
    store_two_rows<T, kDv>(o, to, p.o.row, p.dv_dim, row, work.rows_written);
  }
}

template <class T, int kD, int kDv>
__global__ void __launch_bounds__(ForwardMemory<kD, kDv>::kThreads, 1)
    forward_kernel(const __grid_constant__ ForwardArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Memory = ForwardMemory<kD, kDv>;
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
    if (threadIdx.x < 32 && elect()) load_tiles<T, kD, kDv>(args, memory);
  } else {
    take_registers<Memory::kConsumerRegisters>();
    attend_tiles<T, kD, kDv>(args, memory, warpgroup - 1);
  }
#endif
}

}  // namespace strobe::cuda::sm90
