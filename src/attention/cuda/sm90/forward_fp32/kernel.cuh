// Hopper forward kernel for fp32 on wgmma; launch.cpp calls Fp32ForwardKernels, defined at the end. Two splitter
// warpgroups load rows and split each element into two fp16 floats (split.cuh). Two consumer warpgroups run the
// matmuls, each for 64 rows of the block's tile. One of them computes its softmax while the other runs its matmuls.
// sm90/device/split_mma.cuh has the matmuls of split floats.
#pragma once

#include <algorithm>
#include <iterator>
#include <utility>

#include "attention/cuda/device/element.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm90/device/split_mma.cuh"
#include "attention/cuda/sm90/forward/weigh.cuh"
#include "attention/cuda/sm90/forward_fp32/split.cuh"

namespace strobe::cuda::sm90 {

inline constexpr float kTopPower = 15;  // the largest probability of a row in a tile is at most 2^15
inline constexpr float kFromTop = 0x1p-15f;

// 2^power for power <= 0. Returns 0 for NaN, which is the difference of two infinities.
__device__ __forceinline__ float power_of_two(float power) { return exp2_fast(fmaxf(power, -1000.f)); }

// Online softmax of a thread's two rows. In every tile the largest probability of a row is scaled to just below 2^15,
// the top of fp16's range, regardless of earlier tiles. Two fp16 floats represent a number just below a power of two
// far more exactly than other numbers. If a row has one key, or one dominant key, its O is therefore that key's V.
struct Fp32TwoRows {
  float base[2] = {kMinusInfinity, kMinusInfinity};  // base-2 exponent to which sum and output are relative
  float sum[2] = {0, 0};                             // over this thread's columns

  // Effect of a tile on a row: `shrink` multiplies the previous sums, `unit` multiplies the tile's contribution.
  struct Step {
    float shrink[2], unit[2];
  };

  // Replaces MMA results by probabilities. MMA result * factor is the base-2 exponent of a score; there is one factor
  // per item of K and row.
  template <int kCount, int kPieces>
  __device__ __forceinline__ Step weigh(float (&s)[kCount], const float (&factor)[kPieces][2]) {
    constexpr int kInPiece = kCount / kPieces;
    Step step;
    float minus_base[2], total[2] = {0, 0};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float here = kMinusInfinity;
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        float highest = kMinusInfinity;
#pragma unroll
        for (int i = piece * kInPiece + 2 * h; i < (piece + 1) * kInPiece; i += 4) {
          highest = fmaxf(highest, fmaxf(s[i], s[i + 1]));
        }
        // rounded up, so that no probability exceeds the top
        here = fmaxf(here, __fmaf_ru(highest, factor[piece][h], -kTopPower));
      }
      here = quad_max(here);
      const float before = base[h];
      base[h] = fmaxf(before, here);
      step.shrink[h] = power_of_two(before - base[h]);
      step.unit[h] = power_of_two(here - base[h]);
      minus_base[h] = here == kMinusInfinity ? 0 : -here;  // no key in this tile
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      s[i] = exp2_fast(fmaf(s[i], factor[i / kInPiece][i / 2 % 2], minus_base[i / 2 % 2]));
      total[i / 2 % 2] += s[i];
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) sum[h] = fmaf(total[h], step.unit[h], sum[h] * step.shrink[h]);
    return step;
  }
};

// Multiplies this thread's scores of one item by the scales of their keys and by `factor`.
template <int kPiece, int kInPiece, int kCount>
__device__ __forceinline__ void scale_keys(float (&s)[kCount], std::uint32_t scales, float factor) {
#pragma unroll
  for (int n = kPiece * kInPiece / 4; n < (kPiece + 1) * kInPiece / 4; ++n) {
    const float2 scale = load_shared_pair(scales + static_cast<std::uint32_t>((n * 8 + lane_index() % 4 * 2) * 4));
    s[4 * n] *= scale.x * factor, s[4 * n + 1] *= scale.y * factor;
    s[4 * n + 2] *= scale.x * factor, s[4 * n + 3] *= scale.y * factor;
  }
}

// Called if the rows of an item of V have separate scales. Multiplies the probabilities by these scales, and scales the
// result to the top of fp16's range again. The new scale must derive from the largest probability * scale, because the
// largest rows of V may have the smallest probabilities. `unit` compensates for the new scale.
template <int kPiece, int kInPiece, int kCount>
__device__ __forceinline__ void take_scales_of_v(float (&s)[kCount], float (&unit)[2], std::uint32_t scales) {
  scale_keys<kPiece, kInPiece>(s, scales, kFromTop);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float largest = 0;
#pragma unroll
    for (int i = kPiece * kInPiece + 2 * h; i < (kPiece + 1) * kInPiece; i += 4) {
      largest = fmaxf(largest, fmaxf(s[i], s[i + 1]));
    }
    const RowScale scale(quad_max(largest));
#pragma unroll
    for (int i = kPiece * kInPiece + 2 * h; i < (kPiece + 1) * kInPiece; i += 4) s[i] *= scale.up, s[i + 1] *= scale.up;
    unit[h] *= scale.down;
  }
}

// s = Q K^T of this warpgroup's rows.
template <int kKeys, int kD, int kRows>
__device__ __forceinline__ void mma_scores(float (&s)[kKeys / 2], std::uint32_t q, std::uint32_t k) {
  float first[kKeys / 2];
  start_scores<kKeys, kD, kRows, 0>(s, q, k);
  start_scores<kKeys, kD, kRows, 1>(first, q, k);
  if constexpr (kD == 64) {
    wgmma_wait<0>(s, first);
    add(s, first);
  } else {
    static_assert(kD == 128);
    float second[kKeys / 2];
    start_scores<kKeys, kD, kRows, 2>(second, q, k);
    wgmma_wait<1>(s, first);
    add(s, first);
    start_scores<kKeys, kD, kRows, 3>(first, q, k);
    wgmma_wait<1>(second);
    add(s, second);
    wgmma_wait<0>(first);
    add(s, first);
  }
}

// o += unit * P V, with one unit per item of V and row. While one chunk of MMAs runs, the previous result is added and
// the probabilities of the next chunk are split. Nothing modifies probabilities before the MMAs that read them
// complete.
template <int kKeys, int kD, int kPieces>
__device__ __forceinline__ void add_output(float (&o)[kD / 2], const float (&s)[kKeys / 2], std::uint32_t v,
                                           const float (&unit)[kPieces][2]) {
  constexpr int kSlabs = kD / 64, kShares = kKeys / 32 * kSlabs;
  float sum[2][32];
  LeftTerms probabilities[kKeys / 32];
  const auto start = [&]<int kShare>() {
    constexpr int kGroup = kShare / kSlabs;
    if constexpr (kShare % kSlabs == 0) {
      probabilities[kGroup].take(s + 16 * kGroup, 1);
      settle(probabilities[kGroup]);
    }
    start_output<kKeys, kD, kGroup, kShare % kSlabs>(sum[kShare % 2], probabilities[kGroup], v);
  };
  const auto collect = [&]<int kShare>() {
    wgmma_wait<kShare + 1 < kShares ? 1 : 0>(sum[kShare % 2], probabilities[kShare / kSlabs]);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      float& to = o[kShare % kSlabs * 32 + i];
      to = fmaf(sum[kShare % 2][i], unit[kShare * kPieces / kShares][i / 2 % 2], to);
    }
  };
  start.template operator()<0>();
  for_each<kShares>([&]<int kShare>() {
    if constexpr (kShare + 1 < kShares) start.template operator()<kShare + 1>();
    collect.template operator()<kShare>();
  });
}

// Normalizes O of this thread's two rows and stores O and LSE, to args.splits if the keys are split.
template <int kD, class Work>
__device__ __forceinline__ void finish_rows(const Fp32ForwardArgs& args, const WorkTile& work_tile, const Work& work,
                                            int row, const Fp32TwoRows& softmax, const float (&o)[kD / 2]) {
  const Fp32ForwardParams& p = args.params;
  const Sequence& sequence = work.sequence;
  const bool whole = args.splits.count == 1;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int i = row + 8 * h;
    const float sum = quad_sum(softmax.sum[h]) * kFromTop;
    const Keys keys = sequence.allowed(i);
    const bool has_keys = i < sequence.seqlen_q && keys.lo < keys.hi;
    const float* sink = p.sinks && whole ? p.sinks + work_tile.head : nullptr;
    const float base = softmax.base[h] + kTopPower;
    RowResult result = finish_row(base * args.natural, sum, has_keys, sink);
    if (has_keys && !sink && sum != 0) result.lse = fmaf(base, args.natural, logf(sum));  // a single rounding
    if (i < 0 || i >= work.rows_written) continue;
    const std::int64_t index = lse_index(p, sequence, work_tile.b, work_tile.head, i);
    const std::int64_t partial = work_tile.tile % args.splits.count * args.splits.rows + index;
    float* const lse = whole ? p.lse + index : args.splits.lse + partial;
    if ((p.lse || !whole) && lane_index() % 4 == 0) *lse = result.lse;
    float* const to = whole ? static_cast<float*>(p.o.data) +
                                  head_offset(p.o, work_tile.b, work_tile.head, sequence.q_begin) + i * p.o.row
                            : args.splits.o + partial * kD;
#pragma unroll
    for (int c = 0; c < kD / 8; ++c) {
      const int column = c * 8 + lane_index() % 4 * 2;
      const float low = result.inverse == 0 ? 0 : o[4 * c + 2 * h] * result.inverse;
      const float high = result.inverse == 0 ? 0 : o[4 * c + 2 * h + 1] * result.inverse;
      if (!whole || column < p.dv_dim) *reinterpret_cast<float2*>(to + column) = make_float2(low, high);
    }
  }
}

template <int kD, Fp32Shape kShape>
__device__ __forceinline__ void attend_rows(const Fp32ForwardArgs& args, const Fp32Memory<kD, kShape>& memory,
                                            int consumer) {
  using Memory = Fp32Memory<kD, kShape>;
  constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys;
  constexpr int kPieces = Memory::kPieces, kInPiece = kKeys / 2 / kPieces;  // scores per thread and item
  using Work = ForwardWork<kRows, kKeys, true, true>;
  const int lane = lane_index(), thread = static_cast<int>(threadIdx.x) % 128;
  const int lane_row = consumer * 64 + thread / 32 * 16 + lane / 4;  // and lane_row + 8
  PipelineState<Memory::kQStages> q_at;
  PipelineState<Memory::kStages> k_at, v_at;
  // Every thread arrives on the "free" barriers, because every thread reads scales.
  const auto release_k = [&] {
    memory.k_free(k_at.stage).arrive();
    k_at.move();
  };
  const auto release_v = [&] {
    memory.v_free(v_at.stage).arrive();
    v_at.move();
  };
  const auto release_q = [&] {
    memory.q_free(q_at.stage).arrive();
    q_at.move();
  };

  for (;;) {
    memory.q_full(q_at.stage).wait(q_at.parity);
    WorkTile work_tile = load_work_tile(memory.work_tile(q_at.stage));
    work_tile = {same_for_warp(work_tile.b), same_for_warp(work_tile.head), same_for_warp(work_tile.tile)};
    if (work_tile.b < 0) return;
    const Work work(args, work_tile);
    const Sequence& sequence = work.sequence;
    const int row = work.first_row + lane_row;
    const int first = work.first_row + consumer * 64, last = min(first + 63, sequence.seqlen_q - 1);
    // Skips key tiles that only other rows of the block see.
    const int used = max(0, first) > last ? 0 : (sequence.allowed(last).hi + kKeys - 1) / kKeys;
    int tile = work.end - 1;
#pragma unroll 1
    for (; tile >= work.begin && tile >= used; --tile) {
      memory.k_full(k_at.stage).wait(k_at.parity);
      memory.v_full(v_at.stage).wait(v_at.parity);
      release_k();
      release_v();
    }
    float row_factor[2] = {1, 1};
    if (work.begin < work.end) {
      const std::uint32_t scales = memory.q_scales(q_at.stage) + static_cast<std::uint32_t>(lane_row * 4);
      row_factor[0] = bits_to_float(load_shared(scales)) * args.factor;
      row_factor[1] = bits_to_float(load_shared(scales + 32)) * args.factor;
    }
    const std::uint32_t q_rows = same_for_warp(memory.q(q_at.stage) + static_cast<std::uint32_t>(consumer) * 64 * 128);
    const Keys unmasked = sequence.all(first, last);  // keys that all rows of this warpgroup see
    Fp32TwoRows softmax;
    float o[kD / 2];
#pragma unroll
    for (int i = 0; i < kD / 2; ++i) o[i] = 0;

#pragma unroll 1
    for (; tile >= work.begin; --tile) {
      memory.k_full(k_at.stage).wait(k_at.parity);
      float s[kKeys / 2];
      // same_for_warp() keeps operand addresses in uniform registers.
      mma_scores<kKeys, kD, kRows>(s, q_rows, same_for_warp(memory.k(k_at.stage)));
      float factor[kPieces][2];
      const auto scale_products = [&]<int kPiece>() {
        const float scale = bits_to_float(load_shared(memory.k_piece_scales(k_at.stage) + kPiece * 4));
        if (scale == 0) scale_keys<kPiece, kInPiece>(s, memory.k_scales(k_at.stage), 1);
#pragma unroll
        for (int h = 0; h < 2; ++h) {  // clamped to a finite nonzero value, so that no finite score becomes NaN
          factor[kPiece][h] = fminf(fmaxf(scale == 0 ? row_factor[h] : row_factor[h] * scale, 0x1p-126f), 0x1p126f);
        }
      };
      for_each<kPieces>(scale_products);
      release_k();
      if (tile * kKeys < unmasked.lo || (tile + 1) * kKeys > unmasked.hi) {
        const Keys allowed[2] = {sequence.allowed(row), sequence.allowed(row + 8)};
        mask_scores<kKeys>(s, allowed, tile * kKeys + lane % 4 * 2);
      }
      const Fp32TwoRows::Step step = softmax.weigh(s, factor);
      if (__any_sync(0xffffffffu, step.shrink[0] != 1 || step.shrink[1] != 1)) {
#pragma unroll
        for (int i = 0; i < kD / 2; ++i) o[i] *= step.shrink[i / 2 % 2];
      }
      memory.v_full(v_at.stage).wait(v_at.parity);
      float unit[kPieces][2];
      const auto take_scales = [&]<int kPiece>() {
        const float scale = bits_to_float(load_shared(memory.v_piece_scales(v_at.stage) + kPiece * 4));
        unit[kPiece][0] = step.unit[0], unit[kPiece][1] = step.unit[1];
        if (scale == 0) {
          take_scales_of_v<kPiece, kInPiece>(s, unit[kPiece], memory.v_scales(v_at.stage));
        } else {
          unit[kPiece][0] *= scale * kFromTop;
          unit[kPiece][1] *= scale * kFromTop;
        }
      };
      for_each<kPieces>(take_scales);
      add_output<kKeys, kD>(o, s, same_for_warp(memory.v(v_at.stage)), unit);
      release_v();
    }
    release_q();
    finish_rows<kD>(args, work_tile, work, row, softmax, o);
  }
}

// nvcc 13.0 generates host code that does not compile if a kernel has an Fp32Shape as template argument.
template <int kSplitters, int kConsumers, int kKeys, int kStages, int kQStages, int kPieces>
struct Fp32Tiles {
  static constexpr Fp32Shape kShape{kSplitters, kConsumers, kKeys, kStages, kQStages, kPieces};
};

template <int kD, class Tiles>
__global__ void __launch_bounds__(threads_of(Tiles::kShape), 1)
    fp32_forward_kernel(const __grid_constant__ Fp32ForwardArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr Fp32Shape kShape = Tiles::kShape;
  using Memory = Fp32Memory<kD, kShape>;
  const Memory memory;
  if (threadIdx.x == 0) memory.begin_barriers();
  block_sync();
  const int warpgroup = same_for_warp(static_cast<int>(threadIdx.x) / 128);
  if (warpgroup < kShape.splitters) {
    warpgroup_reg_dealloc<Memory::kSplitterRegisters>();
    split_items(args, memory);
  } else {
    warpgroup_reg_alloc<Memory::kConsumerRegisters>();
    attend_rows(args, memory, warpgroup - kShape.splitters);
  }
#endif
}

template <int kD>
void Fp32ForwardKernels<kD>::launch(const Fp32ForwardLaunch& launch, const Fp32ForwardArgs& args) {
  const Fp32Shape& shape = launch.config.shape;
  const std::int64_t tiles = std::int64_t{args.scheduler.units} * args.scheduler.tiles;
  const Launch how{"hopper forward, fp32", std::min<std::int64_t>(tiles, launch.multiprocessors), threads_of(shape),
                   launch.config.shared_bytes, launch.stream};
  const auto starts = [&]<std::size_t kIndex>() {
    constexpr Fp32Rule kRule = kFp32Rules[kIndex];
    if constexpr (kRule.d == kD) {
      constexpr Fp32Shape kShape = kRule.shape;
      if (kShape == shape) {
        using Tiles =
            Fp32Tiles<kShape.splitters, kShape.consumers, kShape.keys, kShape.stages, kShape.q_stages, kShape.pieces>;
        launch_kernel(fp32_forward_kernel<kD, Tiles>, how, args);
        return true;
      }
    }
    return false;
  };
  const bool started = [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    return (starts.template operator()<kIndex>() || ...);
  }
  (std::make_index_sequence<std::size(kFp32Rules)>());
  if (!started) {
    throw Error(ErrorCode::unsupported, "cuda: hopper forward, fp32: this build has no kernel for the chosen tiles");
  }
}

}  // namespace strobe::cuda::sm90
