// Hopper forward kernel on wgmma and TMA for fp16 and bf16; launch_tiles.cuh launches it. One producer thread loads
// tiles of Q, K and V. Each of one to four consumer warpgroups computes 64 rows of the block's tile, or two share the
// same 64 rows and alternate on key tiles. A consumer issues the Q K^T matmul of the next key tile before the P V
// matmul of the current one. The softmax of the next tile then overlaps with P V. Key tiles are visited from the last
// to the first, so tiles that a causal mask cuts come first.
#pragma once

#include <type_traits>

#include "attention/cuda/device/dropout.cuh"
#include "attention/cuda/sm90/device/alibi.cuh"
#include "attention/cuda/sm90/device/bias.cuh"
#include "attention/cuda/sm90/device/clear.cuh"
#include "attention/cuda/sm90/device/store.cuh"
#include "attention/cuda/sm90/forward/load.cuh"
#include "attention/cuda/sm90/forward/weigh.cuh"

namespace strobe::cuda::sm90 {

// Stores one row of a split's result: O in fp32 and LSE. row: its index in splits.o and splits.lse; o: accumulators of
// this thread's two rows; h: 0 or 1, selects one of them.
template <int kDv>
__device__ __forceinline__ void store_partial(const Splits& splits, std::int64_t row, const float (&o)[kDv / 2], int h,
                                              float lse) {
  if (lane_index() % 4 == 0) splits.lse[row] = lse;
  float* const to = splits.o + row * kDv + lane_index() % 4 * 2;
#pragma unroll
  for (int c = 0; c < kDv / 8; ++c) {
    *reinterpret_cast<float2*>(to + c * 8) = make_float2(o[4 * c + 2 * h], o[4 * c + 2 * h + 1]);
  }
}

// Normalizes O of this thread's two rows and stores O and LSE, to args.splits if the keys are split.
template <class T, int kDv, bool kSplits, class Work>
__device__ __forceinline__ void finish_tile(const ForwardArgs& args, const WorkTile& work_tile, const Work& work,
                                            int row, const TwoRows& softmax, float unit, float dropout_scale,
                                            float (&o)[kDv / 2]) {
  const ForwardParams& p = args.params;
  const Sequence& sequence = work.sequence;
  const bool whole = !kSplits || args.splits.count == 1;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int i = row + 8 * h;
    const float sum = quad_sum(softmax.sum[h]);
    const Keys keys = sequence.allowed(i);
    const bool has_keys = i < sequence.seqlen_q && keys.lo < keys.hi;
    const float* sink = p.sinks && whole ? p.sinks + work_tile.head : nullptr;
    const RowResult result = finish_row(multiply_rounded(softmax.maximum[h], unit), sum, has_keys, sink);
    const float inverse = result.inverse * dropout_scale;
#pragma unroll
    for (int c = 0; c < kDv / 8; ++c) {
      o[4 * c + 2 * h] = inverse == 0 ? 0 : o[4 * c + 2 * h] * inverse;
      o[4 * c + 2 * h + 1] = inverse == 0 ? 0 : o[4 * c + 2 * h + 1] * inverse;
    }
    if (i < 0 || i >= work.rows_written) continue;
    const std::int64_t index = lse_index(p, sequence, work_tile.b, work_tile.head, i);
    if (!whole) {
      store_partial<kDv>(args.splits, work_tile.tile % args.splits.count * args.splits.rows + index, o, h, result.lse);
    } else if (p.lse && lane_index() % 4 == 0) {
      p.lse[index] = result.lse;
    }
  }
  if (!whole) return;
  std::uint16_t* to =
      static_cast<std::uint16_t*>(p.o.data) + head_offset(p.o, work_tile.b, work_tile.head, sequence.q_begin);
  store_two_rows<T, kDv>(o, to, p.o.row, p.dv_dim, row, work.rows_written);
}

// Stores softmax state and O of the second of two warpgroups that share rows, to shared memory.
template <int kDv, class Memory>
__device__ __forceinline__ void store_shared_rows(const Memory& memory, int thread, const TwoRows& softmax,
                                                  const float (&o)[kDv / 2]) {
  const float rows[4] = {softmax.maximum[0], softmax.maximum[1], softmax.sum[0], softmax.sum[1]};
  store_four(memory.shared_rows(), 0, thread, rows);
#pragma unroll
  for (int i = 0; i < kDv / 8; ++i) store_four(memory.shared_rows(), 1 + i, thread, o + 4 * i);
}
// Called by the first of two warpgroups that share rows. Rescales its own softmax state and O, and those that the
// second warpgroup stored, to the common maximum, and adds the two.
template <int kDv, class Memory>
__device__ __forceinline__ void merge_shared_rows(const Memory& memory, int thread, float factor, TwoRows& softmax,
                                                  float (&o)[kDv / 2]) {
  float four[4];
  load_four(four, memory.shared_rows(), 0, thread);
  float mine[2], its[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float other = four[h], highest = fmaxf(softmax.maximum[h], other);
    const float base = highest == kMinusInfinity ? 0 : highest;
    mine[h] = exp2_fast((softmax.maximum[h] - base) * factor);
    its[h] = exp2_fast((other - base) * factor);
    softmax.maximum[h] = highest;
    softmax.sum[h] = softmax.sum[h] * mine[h] + four[2 + h] * its[h];
  }
#pragma unroll
  for (int i = 0; i < kDv / 8; ++i) {
    load_four(four, memory.shared_rows(), 1 + i, thread);
#pragma unroll
    for (int e = 0; e < 4; ++e) o[4 * i + e] = o[4 * i + e] * mine[e / 2] + four[e] * its[e / 2];
  }
}

// packs_dropout(), which kernel code cannot call, because it is a host function.
template <int kDv>
inline constexpr bool kDropsPacked = packs_dropout({kDv, kDv});

// kRotates: the loop over key tiles exits after the softmax of a tile and before the wait for the P V matmul of the
// previous tile. This branch keeps ptxas from moving the softmax behind the wait. rotates() in config.h selects the
// shapes.
template <class T, bool kRotates, int kD, int kDv, ForwardShape kShape, class Args>
__device__ __forceinline__ void attend_tiles(const Args& args, const ForwardMemory<kD, kDv, kShape>& memory,
                                             int consumer) {
  constexpr bool kDrops = std::is_same_v<Args, DroppingForwardArgs>, kShares = kShape.shares;
  constexpr bool kPacks = kDropsPacked<kDv>;
  constexpr int kStep = kShares ? 2 : 1;  // distance between consecutive key tiles of this warpgroup
  using Memory = ForwardMemory<kD, kDv, kShape>;
  constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys, kConsumers = kShape.consumers;
  using Work = ForwardWork<kRows, kKeys, kShape.passes, kShape.splits>;
  const ForwardParams& p = args.params;
  // score in natural units before the bias: cap_unit * q.k, or with a softcap cap_unit * tanh(q.k * scale / softcap)
  const float cap_unit = p.softcap != 0 ? p.softcap : p.scale;
  const float unit = HasBias<Args> ? 1 : cap_unit, factor = unit * kLog2E;  // with a bias, scores are in natural units
  float dropout_scale = 1;
  if constexpr (kDrops) dropout_scale = args.scale;
  const int lane = lane_index(), thread = static_cast<int>(threadIdx.x) % 128;
  const int first_lane_row = kShares ? 0 : consumer * 64;
  const int lane_row = first_lane_row + thread / 32 * 16 + lane / 4;  // and lane_row + 8
  // One elected thread per warpgroup releases stages to the producer. wgmma needs all four warps: once a wgmma has
  // completed, every warp has waited for the stages that this wgmma read. A stage that no wgmma reads may be released
  // only after sync_warpgroup(). In addition each warp arrives at q_free once it has read the WorkTile.
  const bool elected = thread == 0;
  const auto sync_warpgroup = [&] { barrier_sync(1 + consumer, 128); };
  PipelineState<Memory::kQStages> q_at;
  PipelineState<Memory::kPipelineStages> k_at, v_at;
  const int first_stage = kShares ? consumer * Memory::kPipelineStages : 0;  // first stage of this warpgroup's pipeline

  // Warp-uniform if the loop is rotated, so that the matrix descriptor of Q is in uniform registers.
  const int q_row = kRotates ? same_for_warp(first_lane_row) : first_lane_row;
  float s[kKeys / 2], o[kDv / 2];
  std::uint32_t probabilities[kKeys / 4];
  const auto start_scores = [&] {
    memory.k_full(first_stage + k_at.stage).wait(k_at.parity);
    wgmma_begin();
    mma_nt<T, kKeys, kD, kRows>(s, memory.q(q_at.stage) + static_cast<std::uint32_t>(q_row) * 128,
                                memory.k(first_stage + k_at.stage), false);
    wgmma_commit();
  };
  const auto release_k = [&] {
    if (elected) memory.k_free(first_stage + k_at.stage).arrive();
    k_at.move();
  };
  const auto release_q = [&] {
    if (elected) memory.q_free(q_at.stage).arrive();
    q_at.move();
  };
  const auto start_output = [&](bool accumulate) {
    memory.v_full(first_stage + v_at.stage).wait(v_at.parity);
    wgmma_begin();
    mma_nn<T, kDv, kKeys>(o, probabilities, memory.v(first_stage + v_at.stage), accumulate);
    wgmma_commit();
  };
  const auto release_v = [&] {
    if (elected) memory.v_free(first_stage + v_at.stage).arrive();
    v_at.move();
  };

  for (;;) {
    memory.q_full(q_at.stage).wait(q_at.parity);
    WorkTile work_tile{};
    if (lane == 0) work_tile = load_work_tile(memory.work_tile(q_at.stage));
    work_tile = {same_for_warp(work_tile.b), same_for_warp(work_tile.head), same_for_warp(work_tile.tile)};
    if (lane == 0) memory.q_free(q_at.stage).arrive();  // same_for_warp() needs all lanes, so all have waited
    if (work_tile.b < 0) return;
    const Work work(args, work_tile);
    const Sequence& sequence = work.sequence;
    const int row = work.first_row + lane_row;
    const int first = work.first_row + first_lane_row, last = min(first + 63, sequence.seqlen_q - 1);
    TwoRows softmax;
    const int keys_left = sequence.seqlen_k - (work.end - 1) * kKeys;
    // Only the last key tile of a sequence can have rows past the sequence end: clear them in V.
    if (work.begin < work.end && keys_left < kKeys && (p.packed || p.lengths_k.data) && !(kShares && consumer > 0)) {
      memory.v_full(v_at.stage).wait(v_at.parity);
      clear_rows_from<kKeys, kDv, kShares ? 1 : kConsumers>(memory.v(v_at.stage), keys_left, consumer * 128 + thread);
    }
    int end = work.end;
    // Releases key tiles that no row of this warpgroup sees, without reading them.
    if constexpr (kShape.passes) {
      const int used = max(0, first) > last ? 0 : (sequence.allowed(last).hi + kKeys - 1) / kKeys;
#pragma unroll 1
      for (; end > work.begin && end > used; --end) {
        memory.k_full(k_at.stage).wait(k_at.parity);
        memory.v_full(v_at.stage).wait(v_at.parity);
        sync_warpgroup();
        release_k();
        release_v();
      }
    }
    const int key_tiles = end - work.begin;
    if (kShares && consumer == 1 && key_tiles < 2) {  // the only key tile belongs to the first warpgroup
      release_q();
      continue;
    }
    if (key_tiles == 0) {
      release_q();
      finish_tile<T, kDv, kShape.splits>(args, work_tile, work, row, softmax, unit, dropout_scale, o);
      continue;
    }
    // One random word per pair of probabilities, or one bit per score (packs_dropout() in config.h). They are drawn
    // while wgmma runs.
    constexpr int kPairs = kKeys / 4, kSquares = kKeys / 16;
    std::uint32_t words[!kDrops ? 1 : kPacks ? (kPairs + 15) / 16 : kPairs];
    const auto draw_tile = [&](int tile) {
      if constexpr (kDrops) {
        const Philox philox(args.philox_keys, work_tile.b, work_tile.head);
        const int key = tile * kKeys + lane % 4 * 2;
        if constexpr (kPacks) {
          const KeepsPair keeps(args.threshold);
#pragma unroll
          for (int w = 0; w < kSquares / 4; ++w)
            words[w] = kept_blocks<Along::keys, 4>(philox, keeps, row, key + w * 64);
          if constexpr (kSquares % 4 > 0) {
            words[kSquares / 4] = kept_blocks<Along::keys, kSquares % 4>(philox, keeps, row, key + kSquares / 4 * 64);
          }
        } else {
#pragma unroll
          for (int c = 0; c < kSquares; ++c) philox.words(words + 4 * c, row, key + c * 16);
        }
      }
    };
    const auto round_probabilities = [&] {
      round_to_operand<T>(probabilities, s);
      if constexpr (kDrops) {
#pragma unroll
        for (int i = 0; i < kPairs; ++i) {
          if constexpr (!kPacks) {
            drop_pair(probabilities[i], words[i], args.threshold);
          } else if (i < kSquares / 4 * 16) {
            drop_pair_of_block<4>(probabilities[i], words[i / 16], i % 16);
          } else {
            drop_pair_of_block<kSquares % 4 == 0 ? 4 : kSquares % 4>(probabilities[i], words[i / 16], i % 16);
          }
        }
      }
    };
    float slope = 0;  // of ALiBi, in units of the scores
    if constexpr (HasAlibi<Args>) slope = args.alibi_slopes[work_tile.head] / unit;
    using Bias = WarpBias<16, HasBias<Args> ? kKeys : 64>;
    const Bias bias{memory.bias() + static_cast<std::uint32_t>(consumer * 4 + thread / 32) * Bias::kBytes};
    const auto load_bias = [&](int tile) {
      if constexpr (HasBias<Args>) {
        bias.load(args.bias, work_tile.b, work_tile.head, row - lane / 4, tile * kKeys, sequence);
      }
    };
    const Keys unmasked = sequence.all(first, last);  // keys that all rows of this warpgroup see
    float shrink[2];
    const auto weigh = [&](int tile) {
      if (p.softcap != 0) {
        const float inner = p.scale / p.softcap;
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) s[i] = tanh_fast(s[i] * inner);
      }
      if constexpr (HasAlibi<Args>) {
        const Alibi alibi{slope, static_cast<float>(row + sequence.offset - tile * kKeys - lane % 4 * 2)};
#pragma unroll
        for (int i = 0; i < kKeys / 2; ++i) s[i] = alibi.add(s[i], i / 2 % 2 * 8 - i / 4 * 8 - i % 2);
      }
      if constexpr (HasBias<Args>) {
        bias.wait();
        bias.template add<T>(s, cap_unit);
        warp_sync();
        if (tile - kStep >= work.begin) load_bias(tile - kStep);
      }
      if (tile * kKeys < unmasked.lo || (tile + 1) * kKeys > unmasked.hi) {
        const Keys allowed[2] = {sequence.allowed(row), sequence.allowed(row + 8)};
        mask_scores<kKeys>(s, allowed, tile * kKeys + lane % 4 * 2);
      }
      softmax.template weigh<HasBias<Args>>(s, factor, shrink);
    };

    int tile = end - 1 - (kShares ? consumer : 0);
    load_bias(tile);
    start_scores();
    draw_tile(tile);
    wgmma_wait<0>(s);
    release_k();
    weigh(tile);
    round_probabilities();
    bool accumulate = false;
    if constexpr (kRotates) {
      const auto weigh_next = [&] {
        start_scores();
        start_output(accumulate);
        accumulate = true;
        draw_tile(tile);
        wgmma_wait<1>(s);
        release_k();
        weigh(tile);
      };
      const auto finish_output = [&] {
        wgmma_wait<0>(o, probabilities);
        release_v();
        const bool grew = shrink[0] != 1 || shrink[1] != 1;  // false for most key tiles of a long sequence
        if (__any_sync(0xffffffffu, grew)) {
#pragma unroll
          for (int i = 0; i < kDv / 2; ++i) o[i] *= shrink[i / 2 % 2];
        }
        round_probabilities();
      };
      tile -= kStep;
      if (tile >= work.begin) {
        for (;;) {
          weigh_next();
          settle(s);
          tile -= kStep;
          if (tile < work.begin) break;
          finish_output();
        }
        release_q();
        finish_output();
      } else {
        release_q();
      }
    } else {  // same steps without lambdas: with lambdas ptxas schedules these shapes worse
      for (tile -= kStep; tile >= work.begin; tile -= kStep) {
        start_scores();
        start_output(accumulate);
        accumulate = true;
        draw_tile(tile);
        wgmma_wait<1>(s);
        release_k();
        weigh(tile);
        wgmma_wait<0>(o, probabilities);
        release_v();
#pragma unroll
        for (int i = 0; i < kDv / 2; ++i) o[i] *= shrink[i / 2 % 2];
        round_probabilities();
      }
      release_q();
    }
    start_output(accumulate);
    wgmma_wait<0>(o, probabilities);
    release_v();
    if constexpr (kShares) {
      if (key_tiles > 1) {  // both warpgroups execute the same barrier instructions, as synccheck requires
        if (consumer == 1) store_shared_rows<kDv>(memory, thread, softmax, o);
        barrier_sync(6, 256);
        if (consumer == 0) merge_shared_rows<kDv>(memory, thread, factor, softmax, o);
        barrier_sync(7, 256);
      }
      if (consumer == 1) continue;
    }
    finish_tile<T, kDv, kShape.splits>(args, work_tile, work, row, softmax, unit, dropout_scale, o);
  }
}

// Carries a ForwardShape as a type. With a ForwardShape in the kernel's name nvcc 13.0 emits invalid host code.
template <int kConsumers, int kKeys, int kStages, int kQStages, bool kPasses, bool kShares = false,
          bool kSplits = false>
struct ForwardTiles {
  static constexpr ForwardShape kShape{kConsumers, kKeys, kStages, kQStages, kPasses, kShares, kSplits};
};

template <int kD, int kDv, class Tiles>
inline constexpr bool kRotates = rotates({kD, kDv}, Tiles::kShape);

template <class T, int kD, int kDv, class Tiles, class Args>
__global__ void __launch_bounds__(threads_of(Tiles::kShape), 1) forward_kernel(const __grid_constant__ Args args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Memory = ForwardMemory<kD, kDv, Tiles::kShape>;
  const Memory memory;
  if (threadIdx.x == 0) {
    prefetch_map(args.q);
    prefetch_map(args.k);
    prefetch_map(args.v);
    memory.begin_barriers();
  }
  block_sync();
  int warpgroup = static_cast<int>(threadIdx.x) / 128;
  // If warpgroups skip or share key tiles, the consumers' trip counts depend on the warpgroup index, so make it
  // warp-uniform.
  if constexpr (Tiles::kShape.passes || Tiles::kShape.shares) warpgroup = same_for_warp(warpgroup);
  if (warpgroup == 0) {
    if constexpr (Memory::kMovesRegisters) warpgroup_reg_dealloc<Memory::kProducerRegisters>();
    if (threadIdx.x < 32 && elect()) load_tiles(args, memory);
  } else {
    if constexpr (Memory::kMovesRegisters) warpgroup_reg_alloc<Memory::kConsumerRegisters>();
    attend_tiles<T, kRotates<kD, kDv, Tiles>>(args, memory, warpgroup - 1);
  }
#endif
}

}  // namespace strobe::cuda::sm90
