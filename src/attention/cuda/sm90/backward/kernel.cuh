// Hopper backward kernel on wgmma and TMA for head dimensions up to 128, launched by launch_kernels.cuh; pairs.cuh has
// the kernel for 256. A block takes key tiles from the work counter. For each key tile it loops over the row tiles that
// see it, for every query head of the group. The consumers keep dK and dV in registers. With Share::keys they write dQ
// to shared memory, and one thread of the producer warpgroup adds it to global memory in fp32 (reduce.cuh). With other
// shapes the consumers add dQ from registers. Scores are computed transposed, [keys][rows], so that P and dS are the
// register A operands of the dV and dK matmuls. Only the dQ matmul reads dS from shared memory. Each matmul is issued
// before the result of the previous one is awaited, so that exponentials overlap with matmuls.
#pragma once

#include "attention/cuda/sm90/backward/dq.cuh"
#include "attention/cuda/sm90/backward/dropout.cuh"
#include "attention/cuda/sm90/backward/load.cuh"
#include "attention/cuda/sm90/backward/reduce.cuh"
#include "attention/cuda/sm90/backward/rows.cuh"
#include "attention/cuda/sm90/backward/scores.cuh"
#include "attention/cuda/sm90/backward/softcap.cuh"
#include "attention/cuda/sm90/device/alibi.cuh"
#include "attention/cuda/sm90/device/clear.cuh"
#include "attention/cuda/sm90/device/store.cuh"

namespace strobe::cuda::sm90 {

// One of the two consumer warpgroups.
template <class T, int kD, BackwardShape kShape, class Args>
struct BackwardConsumer {
  using Memory = BackwardMemory<kD, kShape, HasBias<Args>>;
  using Dq = DqFragment<kD, kShape.rows>;
  static constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys, kStages = Memory::kStages;
  static constexpr bool kAlternates = kShape.share == Share::tiles;
  static_assert(kShape.share != Share::columns);
  // Size of this warpgroup's scores, [64 keys][kScoreRows], and of its dK and dV, [64 keys][kColumns].
  static constexpr int kScoreRows = kRows, kColumns = kD;
  using Work = BackwardWork<kRows, kKeys>;
  // True if registers cannot hold S, dP and rounded P at the same time. P is then rounded, and the dV matmul issued,
  // after dS.
  static constexpr bool kRoundsLate = kScoreRows > 64 && !kCaps<Args>;
  // True if registers cannot hold dP while the softcap is applied.
  static constexpr bool kStartsDpLate = kScoreRows > 64 && kCaps<Args>;
  // True if the consumers order the additions to dQ (`deterministic`), because there is no reducer.
  static constexpr bool kOrders = !Memory::kReducesInBulk;

  const Args& args;
  const Memory& memory;
  const int consumer;
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int score_key = kShape.share == Share::keys ? consumer * 64 : 0;
  const bool elected = thread == 0;  // this thread arrives at barriers for its warpgroup
  PipelineState<2> work_at{};
  PipelineState<kStages> at{};  // stage of Q and of dO
  PipelineState<kBiasStages> bias_at{};
  std::uint32_t keys_parity = 0;
  int buffer = kAlternates ? 2 * consumer : 0;  // index of the dS buffer

  // The work items of row tiles, which round dQ, follow those of all key tiles. A separate loop keeps the registers of
  // the rounding out of the loop over key tiles.
  __device__ __forceinline__ void run() {
    const unsigned tiles = backward_tiles(args);
    unsigned work_index = next_work_index();
    for (; work_index < tiles; work_index = next_work_index()) add_keys(Work(args, work_index));
    while (work_index < backward_work_items(args)) {
      const RowTile place(args, work_index - tiles);
      work_index = next_work_index();
      if (work_index < backward_work_items(args))
        fetch_dq_sum<kD, kRows>(args, RowTile(args, work_index - tiles), consumer_thread());
      round(place);
    }
  }

 private:
  __device__ __forceinline__ unsigned next_work_index() {
    memory.work_full(work_at.stage).wait(work_at.parity);
    const unsigned work_index = same_for_warp(load_shared(memory.work_index(work_at.stage)));
    memory.work_free(work_at.stage).arrive();
    work_at.move();
    return work_index;
  }

  __device__ __forceinline__ void sync_consumers() const { barrier_sync(1, kBackwardConsumers * 128); }
  __device__ __forceinline__ int consumer_thread() const { return consumer * 128 + thread; }

  // Named barrier of the warpgroups that work on the same row tile.
  __device__ __forceinline__ int rows_barrier() const { return kAlternates ? 2 + consumer : 1; }
  __device__ __forceinline__ void sync_row_readers() const { barrier_sync(rows_barrier(), Memory::kReaders * 128); }
  __device__ __forceinline__ int rows_thread() const { return kAlternates ? thread : consumer_thread(); }

  __device__ __forceinline__ void add_keys(const Work& work) {
    if (work.keys_written > 0) {
      float dk[kColumns / 2], dv[kColumns / 2];
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) dk[i] = dv[i] = 0;
      if (work.begin < work.end) {
        walk(work, dk, dv);
        if constexpr (kAlternates) add_up(dk, dv);
      }
      store(work, dk, dv);
    }
    if constexpr (!Memory::kReducesInBulk) {
      sync_consumers();
      if (consumer_thread() == 0) count_up(keys_done_of(args, work.b, work.head));
    }
  }

  // Rounds dQ of a row tile after all key tiles of its KV head have been added. The consumers wait here for key tiles
  // in progress in other blocks. If the producer warp waits instead, one call in hundreds hangs.
  __device__ __forceinline__ void round(const RowTile& place) const {
    if (consumer_thread() == 0) {
      await_count(keys_done_of(args, place.b, place.head / args.params.group),
                  static_cast<std::uint32_t>(args.key_tiles));
    }
    sync_consumers();
    const float scale = args.params.scale * dropout_scale_of(args);
    if constexpr (Dq::kTransposed) {
      round_transposed_dq<T, kD, kRows>(args, place, scale, consumer_thread());
    } else {
      round_dq<T, kD, kRows>(args, place, scale, consumer_thread());
    }
  }

  __device__ __forceinline__ void add_to_dv(float (&dv)[kColumns / 2],
                                            const std::uint32_t (&probabilities)[kScoreRows / 4], int stage) const {
    wgmma_begin();
    mma_nn<T, kColumns, kRows>(dv, probabilities, memory.d_o(stage), true);
    wgmma_commit();
  }

  // Returns the registers for dQ: those of the scores if the counts match, otherwise `more`. The compiler does not
  // reuse the registers of the scores by itself.
  template <int kCount>
  __device__ static __forceinline__ float (&dq_registers(float (&s)[kCount], float (&)[1]))[kCount] {
    return s;
  }
  template <int kOther, int kCount>
  __device__ static __forceinline__ float (&dq_registers(float (&)[kOther], float (&more)[kCount]))[kCount] {
    return more;
  }

  __device__ __forceinline__ void mma_dq(float (&dq)[Dq::kCount], int fragment) const {
    const auto rows = static_cast<std::uint32_t>(Dq::first_row(fragment) / 64) * kSlabBytes<kKeys>,
               columns = static_cast<std::uint32_t>(Dq::first_column(fragment) / 64) * kSlabBytes<kKeys>;
    if constexpr (Dq::kTransposed) {
      mma_tt<T, kRows, kKeys>(dq, memory.k() + columns, memory.gradients(buffer), false);
    } else {
      mma_tn<T, Dq::kColumns, kKeys>(dq, memory.gradients(buffer) + rows, memory.k() + columns, false);
    }
  }

  __device__ __forceinline__ void walk(const Work& work, float (&dk)[kColumns / 2], float (&dv)[kColumns / 2]) {
    const SequenceParams& p = args.params;
    const Sequence& sequence = work.sequence;
    const float factor = p.scale * kLog2E;
    memory.k_full().wait(keys_parity);
    memory.v_full().wait(keys_parity);
    keys_parity ^= 1;
    const int keys_left = sequence.seqlen_k - work.first_key;
    if (keys_left < kKeys && (p.packed || p.lengths_k.data)) {
      clear_rows_from<kKeys, kD, kBackwardConsumers>(memory.k(), keys_left, consumer_thread());
      clear_rows_from<kKeys, kD, kBackwardConsumers>(memory.v(), keys_left, consumer_thread());
    }
    const bool rows_end = p.packed || p.lengths_q.data;  // tiles may have rows past the sequence end
    const std::uint32_t own_keys = static_cast<std::uint32_t>(score_key) * 128;

    std::uint32_t* added = nullptr;  // semaphore of the previous row tile, not yet released
    std::uint32_t added_index = 0;
    std::uint32_t gradients[kScoreRows / 4];  // dS, the A operand of the dK matmul
    int before = -1;                          // stage of the previous row tile, which the matmul of dK reads
    int head = work.head * p.group, tile = work.begin;
    const auto next_tile = [&] {
      if (++tile == work.end) {
        tile = work.begin;
        ++head;
      }
    };
    const int row_tiles = p.group * (work.end - work.begin);
    for (int left = row_tiles; left > 0; --left) {
      if (kAlternates && left % 2 == consumer) {  // the other warpgroup's row tile
        at.move();
        next_tile();
        continue;
      }
      const int stage = at.stage, first_row = tile * kRows;
      float s[kScoreRows / 2], d[kScoreRows / 2];
      memory.q_full(stage).wait(at.parity);
      if (const int rows_left = sequence.seqlen_q - first_row; rows_end && rows_left < kRows) {
        memory.d_o_full(stage).wait(at.parity);
        clear_rows_from<kRows, kD, Memory::kReaders>(memory.q(stage), rows_left, rows_thread(), rows_barrier());
        clear_rows_from<kRows, kD, Memory::kReaders>(memory.d_o(stage), rows_left, rows_thread(), rows_barrier());
      }
      wgmma_begin();
      mma_nt<T, kScoreRows, kD, kKeys, kRows>(s, memory.k() + own_keys, memory.q(stage), false);
      wgmma_commit();
      wgmma_wait<1>(dk, gradients);  // dK of the previous row tile
      if (before >= 0) memory.q_free(before).arrive();
      before = stage;
      const auto start_dp = [&, parity = at.parity] {
        memory.d_o_full(stage).wait(parity);
        wgmma_begin();
        mma_nt<T, kScoreRows, kD, kKeys, kRows>(d, memory.v() + own_keys, memory.d_o(stage), false);
        wgmma_commit();
      };
      if constexpr (!kStartsDpLate) start_dp();
      at.move();

      Dropout<Args, kScoreRows> kept;  // drawn while the matmuls run
      kept.draw(args, work.b, head, first_row, work.first_key + score_key);
      const int first_key = work.first_key + score_key, key = first_key + thread / 32 * 16 + lane_index() / 4;
      const auto alibi = alibi_of(args, head, kLog2E, first_row + sequence.offset + lane_index() % 4 * 2 - key);
      wgmma_wait<kStartsDpLate ? 0 : 1>(s);
      std::uint32_t probabilities[kScoreRows / 4], capped[kCaps<Args> ? kScoreRows / 4 : 1];
      if constexpr (kCaps<Args>) {
        weigh_capped<T, kScoreRows>(s, memory.lse(stage), args, probabilities, capped);
        if constexpr (kStartsDpLate) start_dp();
      } else if constexpr (HasBias<Args>) {
        weigh_with_bias(s, stage, work, head, tile);
      } else {
        weigh<kScoreRows>(s, memory.lse(stage), factor, alibi);
      }
      kept.mark(s);  // before the branch on masks, which keeps ptxas from moving it behind the next wait
      const Keys all = sequence.all(first_row, min(first_row + kRows, sequence.seqlen_q) - 1);
      // A bias past the end of the sequence may be NaN.
      const bool cut = HasBias<Args> && first_row + kRows > sequence.seqlen_q;
      if (cut || first_key < all.lo || first_key + 64 > all.hi) {
        mask_probabilities<kScoreRows>(sequence, key, first_row, [&](int i) {
          if constexpr (kCaps<Args>) {
            clear_element(probabilities, i);
            clear_element(capped, i);
          } else {
            s[i] = 0;
          }
        });
      }
      if constexpr (!kRoundsLate) {
        if constexpr (!kCaps<Args>) kept.template round<T>(probabilities, s);
        add_to_dv(dv, probabilities, stage);
        wgmma_wait<1>(d);
      } else {
        wgmma_wait<0>(d);
      }
      if constexpr (kCaps<Args>) unpack_operand<T>(s, capped);
      take_delta<Dropout<Args, kScoreRows>, kScoreRows>(d, s, memory.delta(stage));
      if constexpr (HasBias<Args>) {
        if (args.dbias.data) store_dbias<kRows>(args, sequence, work.b, head, first_row, key, d);
      }
      round_to_operand<T>(gradients, d);
      if constexpr (kRoundsLate) {
        settle(gradients);  // rounds dS before P
        settle(s);
        kept.template round<T>(probabilities, s);
        add_to_dv(dv, probabilities, stage);
      }
      if constexpr (Dq::kTransposed) {
        store_transposed_operand(memory.gradients(buffer), gradients, consumer, thread);
      } else {
        store_operand<kKeys>(memory.gradients(buffer), gradients, score_key, 0, thread);
      }
      publish_stores();
      if constexpr (Memory::kReducesInBulk) {
        // The fence also covers dQ of the previous row tile. A separate fence for dQ costs 5 % at D 128.
        if (left < row_tiles) memory.dq_full(consumer).arrive();
      }
      sync_row_readers();
      if (kOrders && args.dq_semaphore && added && rows_thread() == 0) release(added, added_index + 1);
      const std::int64_t tile_index = row_tile_index(args, sequence, work.b, head, tile, kRows);
      // kOrders implies kAlternates, which backward_config() does not combine with `deterministic`. So these branches
      // are never taken, but without them ptxas spills at D 64.
      std::uint32_t seen = 0;
      if (kOrders && args.dq_semaphore) {
        added = args.dq_semaphore + tile_index;
        added_index = dq_add_index<kRows, kKeys>(sequence, tile, work.tile);
        seen = watch(added);
      }

      const auto wait_for_dq_semaphore = [&] {
        if (kOrders && args.dq_semaphore) {
          while (static_cast<int>(seen - added_index) < 0) seen = watch(added);
        }
      };

      float more[Dq::kCount == kScoreRows / 2 ? 1 : Dq::kCount];
      float(&dq)[Dq::kCount] = dq_registers(s, more);
      float* const sum = args.dq_sum + tile_index * (kRows * kD);
      if constexpr (kAlternates) {  // registers suffice for only one half of dQ at a time
        wgmma_begin();
        mma_dq(dq, 0);
        wgmma_commit();
        wgmma_wait<0>(dv, probabilities, dq);
        wait_for_dq_semaphore();
        Dq::add(sum, dq, 0, thread);
      }
      wgmma_begin();
      mma_dq(dq, kAlternates ? 1 : consumer);
      wgmma_commit();
      mma_nn<T, kColumns, kRows>(dk, gradients, memory.q(stage), true);
      wgmma_commit();
      buffer ^= 1;
      wgmma_wait<1>(dv, probabilities, dq);
      if (elected) memory.d_o_free(stage).arrive();
      if constexpr (Memory::kReducesInBulk) {
        // `buffer` has already flipped, so it is the parity of the previous row tile's phase.
        memory.dq_free(consumer).wait(static_cast<std::uint32_t>(buffer));
#pragma unroll
        for (int i = 0; i < Dq::kCount / 4; ++i) store_four(memory.dq(consumer), i, thread, dq + 4 * i);
      } else {
        if constexpr (!kAlternates) wait_for_dq_semaphore();
        Dq::add(sum, dq, kAlternates ? 1 : consumer, thread);
      }
      next_tile();
    }
    if constexpr (Memory::kReducesInBulk) {
      publish_stores();
      memory.dq_full(consumer).arrive();
    }
    wgmma_wait<0>(dk, gradients);
    if (!kAlternates || before >= 0) memory.q_free(before).arrive();
    if (!kAlternates && elected) memory.keys_free().arrive();
    if (kOrders && args.dq_semaphore) {
      sync_row_readers();
      if ((!kAlternates || added) && rows_thread() == 0) release(added, added_index + 1);
    }
  }

  __device__ __forceinline__ void weigh_with_bias(float (&s)[kScoreRows / 2], int stage, const Work& work, int head,
                                                  int tile) {
    memory.bias_full(bias_at.stage).wait(bias_at.parity);
    weigh_biased<T, kRows>(s, memory.lse(stage), args.params.scale,
                           memory.bias(bias_at.stage) + static_cast<std::uint32_t>(consumer) * kSlabBytes<kRows>,
                           thread / 32);
    memory.bias_free(bias_at.stage).arrive();
    bias_at.move();
    if (has_rounded_lse<kRows>(memory.lse(stage))) {
      const std::int64_t index = row_tile_index(args, work.sequence, work.b, head, tile, kRows);
      correct_sums<kRows>(s, args.row_facts + (index * kRowFacts<Args> + 2) * kRows);
    }
  }

  // Share::tiles: adds the dK and dV of both warpgroups. The first warpgroup receives dK through the memory of K and V;
  // the second receives dV through the dS buffers.
  __device__ __forceinline__ void add_up(float (&dk)[kD / 2], float (&dv)[kD / 2]) const {
    static_assert(2 * Memory::kKeyBytes >= kD * 256 && 4 * Memory::kScoreBytes >= kD * 256);
    const auto give = [&](const float(&c)[kD / 2], std::uint32_t place) {
#pragma unroll
      for (int i = 0; i < kD / 8; ++i) store_four(place, i, thread, c + 4 * i);
    };
    const auto take = [&](float(&c)[kD / 2], std::uint32_t place) {
#pragma unroll
      for (int i = 0; i < kD / 8; ++i) {
        float four[4];
        load_four(four, place, i, thread);
#pragma unroll
        for (int e = 0; e < 4; ++e) c[4 * i + e] += four[e];
      }
    };
    sync_consumers();  // no MMA reads these buffers any more
    if (consumer == 0) {
      give(dv, memory.gradients(0));
    } else {
      give(dk, memory.k());
    }
    memory.exchanged().arrive();
    memory.exchanged().wait(keys_parity ^ 1);  // walk() has already flipped keys_parity
    if (consumer == 0) {
      take(dk, memory.k());
    } else {
      take(dv, memory.gradients(0));
    }
    publish_stores();
    memory.keys_free().arrive();
  }

  // Stores dK and dV; keys past the sequence length get zeros.
  __device__ __forceinline__ void store(const Work& work, float (&dk)[kColumns / 2], float (&dv)[kColumns / 2]) const {
    const SequenceParams& p = args.params;
    const int row = score_key + thread / 32 * 16 + lane_index() / 4;  // and row + 8
    const float dv_scale = dropout_scale_of(args), dk_scale = p.scale * dv_scale;
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
      const bool valid = work.first_key + row + i / 2 % 2 * 8 < work.sequence.seqlen_k;
      dk[i] = valid ? dk[i] * dk_scale : 0;
      dv[i] = valid ? dv[i] * dv_scale : 0;
    }
    const auto rows_to = [&](const Tensor& tensor) {
      return static_cast<std::uint16_t*>(tensor.data) +
             head_offset(tensor, work.b, work.head, work.sequence.k_begin + work.first_key);
    };
    if (!kAlternates || consumer == 0) {
      store_two_rows<T, kColumns>(dk, rows_to(args.dk), args.dk.row, p.d, row, work.keys_written);
    }
    if (!kAlternates || consumer == 1) {
      store_two_rows<T, kColumns>(dv, rows_to(args.dv), args.dv.row, p.dv_dim, row, work.keys_written);
    }
  }
};

// nvcc rejects a struct as template argument of a kernel, and kernel code cannot call backward_shape(), a host
// function.
template <Share kShare, int kRows>
inline constexpr BackwardShape kBackwardShape = backward_shape(kShare, kRows);

template <class T, int kD, Share kShare, int kRows, class Args>
__global__ void __launch_bounds__(kBackwardThreads, 1) backward_kernel(const __grid_constant__ Args args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr BackwardShape kShape = kBackwardShape<kShare, kRows>;
  using Memory = BackwardMemory<kD, kShape, HasBias<Args>>;
  const Memory memory;
  if (threadIdx.x == 0) {
    prefetch_map(args.q_map);
    prefetch_map(args.k_map);
    prefetch_map(args.d_o_map);
    prefetch_map(args.v_map);
    memory.begin_barriers();
  }
  prepare_rows<T, kD, kRows>(args);  // its last barrier also publishes begin_barriers() to all threads
  const int warpgroup = same_for_warp(static_cast<int>(threadIdx.x) / 128);
  if (warpgroup == 0) {
    warpgroup_reg_dealloc<kBackwardProducerRegisters>();
    const int warp = same_for_warp(static_cast<int>(threadIdx.x) / 32);
    if (warp == 0) BackwardLoader<kD, kShape, Args>{args, memory}.run();
    if constexpr (Memory::kReducesInBulk) {
      if (warp == 1 && elect()) BackwardReducer<Memory, kD>{args, memory}.run();
    }
  } else {
    warpgroup_reg_alloc<kBackwardConsumerRegisters>();
    BackwardConsumer<T, kD, kShape, Args>{args, memory, warpgroup - 1}.run();
  }
#endif
}

}  // namespace strobe::cuda::sm90
