// Hopper backward kernel for fp32 on wgmma. launch.cpp launches it. The kernel loads tiles from the workspace, where
// each element is split into two fp16 floats (load.cuh). A persistent block takes key tiles of a KV head from the work
// counter. For each key tile it loops over the row tiles that see it, for every query head of the group. Each of two
// consumer warpgroups owns 64 of the keys and works independently: it keeps dK and dV in registers and accumulates dQ
// in global memory.
//
// Scores are computed transposed, [keys][rows], so that split probabilities and score gradients are register A
// operands. The score gradients also go through shared memory, for the dQ matmul. One warpgroup computes its softmax
// while the other runs its matmuls.
#pragma once

#include <algorithm>
#include <climits>

#include "attention/cuda/launch_kernel.cuh"
#include "attention/cuda/sm90/backward_fp32/load.cuh"
#include "attention/cuda/sm90/backward_fp32/scores.cuh"
#include "attention/cuda/sm90/device/store.cuh"

namespace strobe::cuda::sm90 {

// One of the two consumer warpgroups.
template <int kD>
struct Fp32BackwardConsumer {
  using Memory = Fp32BackwardMemory<kD>;
  using Dq = Fp32DqFragment<kD>;
  static constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys, kStages = Memory::kStages;
  static constexpr int kScores = kRows / 2;   // scores per thread
  static constexpr int kGroups = kRows / 32;  // groups of 32 rows; each adds one partial sum to dK and dV
  static constexpr int kSlabs = kD / 64;      // slabs of 64 columns
  using Work = BackwardWork<kRows, kKeys>;

  const Fp32BackwardArgs& args;
  const Memory& memory;
  const int consumer;
  PipelineState<2> work_at{};
  PipelineState<kStages> at{};
  std::uint32_t keys_parity = 0;

  __device__ __forceinline__ void run() {
    for (;;) {
      memory.work_full(work_at.stage).wait(work_at.parity);
      const unsigned work_index = same_for_warp(load_shared(memory.work_index(work_at.stage)));
      memory.work_free(work_at.stage).arrive();
      work_at.move();
      if (work_index >= backward_tiles(args)) return;
      const Work work(args, work_index);
      if (work.keys_written <= 0) continue;
      float dk[kD / 2], dv[kD / 2];
#pragma unroll
      for (int i = 0; i < kD / 2; ++i) dk[i] = dv[i] = 0;
      if (work.begin < work.end) walk(work, work_index, dk, dv);
#pragma unroll
      for (int i = 0; i < kD / 2; ++i) dk[i] *= args.params.scale;
      store(work, args.dk, args.params.d, dk);
      store(work, args.dv, args.params.dv_dim, dv);
    }
  }

 private:
  using Sums = float[kGroups][32];  // sums of one slab

  __device__ static __forceinline__ int thread() { return reread_thread_index() % 128; }
  __device__ __forceinline__ void sync_warpgroup() const { barrier_sync(1 + consumer, 128); }
  __device__ __forceinline__ std::uint32_t own_keys() const {
    return static_cast<std::uint32_t>(consumer) * kSlabBytes<64>;
  }

  // s = K Q^T, d = V dO^T. The softmax of the scores runs while the first MMAs of d are in flight. The result of each
  // k-step is added with rounding, as in the kernel that computes the row statistics. Truncation errors of the scores
  // then cancel in the probabilities.
  template <class Weigh>
  __device__ __forceinline__ void mma_scores(float (&s)[kScores], float (&d)[kScores], int stage, Weigh&& weigh) const {
    constexpr int kShares = kD / 16;
    const std::uint32_t k = same_for_warp(memory.k() + own_keys()), v = same_for_warp(memory.v() + own_keys());
    const std::uint32_t q = same_for_warp(memory.q(stage)), d_o = same_for_warp(memory.d_o(stage));
    float more[2][kScores];
    const auto with_sum = [&]<int kShare>(auto&& body) {
      if constexpr (kShare % kShares != 0) {
        body(more[kShare % 2]);
      } else {
        body(kShare == 0 ? s : d);
      }
    };
    const auto start = [&]<int kShare>() {
      with_sum.template operator()<kShare>([&](float(&sum)[kScores]) {
        start_scores<kRows, kD, kKeys, kShare % kShares, 1>(sum, kShare < kShares ? k : v, kShare < kShares ? q : d_o);
      });
    };
    const auto collect_share = [&]<int kShare, int kLeft>() {
      with_sum.template operator()<kShare>([&](float(&sum)[kScores]) {
        wgmma_wait<kLeft>(sum);
        if constexpr (kShare % kShares != 0) add(kShare < kShares ? s : d, sum);
      });
    };
    start.template operator()<0>();
    for_each<2 * kShares - 1>([&]<int kShare>() {
      start.template operator()<kShare + 1>();
      if constexpr (kShare == kShares) weigh();
      collect_share.template operator()<kShare, 1>();
    });
    collect_share.template operator()<2 * kShares - 1, 0>();
  }

  // Starts the matmul of this row tile's contribution to a slab of dV or dK: probabilities times dO, or score gradients
  // times Q.
  template <int kSlab>
  __device__ static __forceinline__ void start_gradient(Sums& sums, const LeftTerms (&terms)[kGroups],
                                                        std::uint32_t rows) {
    for_each<kGroups>([&]<int kGroup>() { start_output<kRows, kD, kGroup, kSlab>(sums[kGroup], terms[kGroup], rows); });
  }

  // Waits until at most kLeft wgmma groups are in flight, and adds the sums to dK or dV. Each tile is summed
  // separately, so that fewer roundings have the magnitude of the total.
  template <int kSlab, int kLeft>
  __device__ static __forceinline__ void collect(float (&to)[kD / 2], Sums& sums, LeftTerms (&terms)[kGroups],
                                                 float unit) {
    for_each<kGroups>([&]<int kGroup>() { wgmma_wait<kLeft>(sums[kGroup], terms[kGroup]); });
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      float sum = sums[0][i];
#pragma unroll
      for (int group = 1; group < kGroups; ++group) sum += sums[group][i];
      to[kSlab * 32 + i] = fmaf(sum, unit, to[kSlab * 32 + i]);
    }
  }

  // Number of groups of 64 keys that add to a row tile before this warpgroup's; negative if no row uses this
  // warpgroup's keys.
  __device__ __forceinline__ int add_index_at(unsigned work_index, int tile) const {
    const Work work(args, work_index);
    return static_cast<int>(dq_add_index<kRows, 64>(work.sequence, tile, 2 * work.tile + consumer));
  }

  // Adds the contribution of this warpgroup's keys to dQ.
  __device__ __forceinline__ void add_dq(unsigned work_index, int index, int tile, float unit) const {
    const std::uint32_t k = same_for_warp(memory.k() + own_keys()),
                        gradients = same_for_warp(memory.gradients(consumer));
    float* const sum = args.dq_sum + std::int64_t{index} * (kRows * kD);
    const int add_index = args.dq_semaphore ? add_index_at(work_index, tile) : 0;
    for_each<kSlabs>([&]<int kSlab>() {
      float dq[kScores], more[kScores];
      start_dq<kRows, kD, kKeys, 0, kSlab>(dq, k, gradients);
      start_dq<kRows, kD, kKeys, 1, kSlab>(more, k, gradients);
      wgmma_wait<0>(dq, more);
#pragma unroll
      for (int i = 0; i < kScores; ++i) dq[i] = (dq[i] + more[i]) * unit;
      if (add_index < 0) return;  // no row uses this warpgroup's keys
      if (args.dq_semaphore && kSlab == 0) {
        while (static_cast<int>(watch(args.dq_semaphore + index)) < add_index) {
        }
      }
      Dq::add(sum, kSlab, dq, thread());
    });
    if (args.dq_semaphore && add_index >= 0) {
      sync_warpgroup();
      if (thread() == 0) release(args.dq_semaphore + index, static_cast<std::uint32_t>(add_index) + 1);
    }
  }

  // Factor that turns the MMA results of Q K^T into scores.
  __device__ __forceinline__ float score_unit(int stage) const {
    const float unit = matmul_unit(load_scale(memory.q_scale(stage)), load_scale(memory.k_scale(stage)));
    return matmul_unit(unit, args.params.scale);
  }

  // Rows [lo, hi) that may use all of this warpgroup's keys; empty if keys past the sequence end must be masked.
  __device__ __forceinline__ Keys unmasked_rows(const Work& work) const {
    const Sequence& sequence = work.sequence;
    const int first = work.first_key + consumer * 64, last = first + 63;
    if (last >= sequence.seqlen_k) return {0, 0};
    return {sequence.right < 0 ? 0 : last - sequence.offset - sequence.right,
            sequence.left < 0 ? INT_MAX : first - sequence.offset + sequence.left + 1};
  }

  __device__ __forceinline__ bool is_masked(int first_row) const {
    const std::uint32_t rows = memory.unmasked_rows(consumer);
    return first_row < static_cast<int>(load_shared(rows)) ||
           first_row + kRows > static_cast<int>(load_shared(rows + 4));
  }

  // Sets masked probabilities to 0. Computes the Work again, because registers hold only what every tile needs.
  __device__ __forceinline__ void mask(float (&s)[kScores], unsigned work_index, int first_row) const {
    const Work work(args, work_index);
    const int key = work.first_key + consumer * 64 + thread() / 32 * 16 + lane_index() / 4;
    mask_probabilities<kRows>(work.sequence, key, first_row, [&](int i) { s[i] = 0; });
  }

  __device__ __forceinline__ void walk(const Work& work, unsigned work_index, float (&dk)[kD / 2],
                                       float (&dv)[kD / 2]) {
    const SequenceParams& p = args.params;
    if (thread() == 0) {
      const Keys unmasked = unmasked_rows(work);
      store_shared(memory.unmasked_rows(consumer), static_cast<std::uint32_t>(unmasked.lo));
      store_shared(memory.unmasked_rows(consumer) + 4, static_cast<std::uint32_t>(unmasked.hi));
    }
    sync_warpgroup();
    const int begin = same_for_warp(work.begin), end = same_for_warp(work.end);
    auto index = static_cast<int>(row_tile_index(args, work.sequence, work.b, work.head * p.group, begin, kRows));
    memory.keys_full().wait(keys_parity);
    keys_parity ^= 1;

    int tile = begin;
#pragma unroll 1
    for (int left = p.group * (end - begin); left > 0; --left) {
      const int stage = at.stage, first_row = tile * kRows;
      memory.rows_full(stage).wait(at.parity);
      at.move();
      float s[kScores], d[kScores];
      mma_scores(s, d, stage, [&] {
        weigh_exactly<kRows>(s, memory.facts(stage), score_unit(stage));
        if (is_masked(first_row)) mask(s, work_index, first_row);
      });
      take_delta_exactly<kRows>(d, s, memory.facts(stage),
                                matmul_unit(load_scale(memory.d_o_scale(stage)), load_scale(memory.v_scale(stage))));
      const std::uint32_t largest = warp_largest(d);
      if (const int n = thread(); n % 32 == 0) {
        store_shared(memory.sizes(consumer) + static_cast<std::uint32_t>(n / 32 * 4), largest);
      }

      // Each warp's probabilities have their own scale, because dV sums over rows only and a warp owns its keys.
      Sums sums;
      LeftTerms terms[kGroups];
      const RowScale of_probabilities(bits_to_float(warp_largest(s)));
#pragma unroll
      for (int i = 0; i < kGroups; ++i) terms[i].take(s + 16 * i, of_probabilities.up), settle(terms[i]);
      const std::uint32_t d_o = same_for_warp(memory.d_o(stage)), q = same_for_warp(memory.q(stage));
      start_gradient<0>(sums, terms, d_o);

      // The score gradients of a warpgroup share one scale, because dQ sums over all its keys.
      sync_warpgroup();  // also ensures that no warp still reads the previous tile's gradients
      std::uint32_t sizes[4];
      load_shared(sizes, memory.sizes(consumer));
      const RowScale of_gradients(bits_to_float(max(max(sizes[0], sizes[1]), max(sizes[2], sizes[3]))));
      LeftTerms gradients[kGroups];
#pragma unroll
      for (int i = 0; i < kGroups; ++i) {
        gradients[i].take(d + 16 * i, of_gradients.up), settle(gradients[i]);
#pragma unroll
        for (int term = 0; term < 2; ++term) {
          store_operand<64>(memory.gradients(consumer) + term * kSlabsBytes<64, 64>, gradients[i].term[term], 0, 32 * i,
                            thread());
        }
      }
      publish_stores();
      const float dv_unit = matmul_unit(of_probabilities.down, load_scale(memory.d_o_scale(stage)));
      const float dk_unit = matmul_unit(of_gradients.down, load_scale(memory.q_scale(stage)));
      const float dq_unit = matmul_unit(of_gradients.down, load_scale(memory.k_scale(stage)));
      collect<0, 0>(dv, sums, terms, dv_unit);
      if constexpr (kSlabs == 2) {
        start_gradient<1>(sums, terms, d_o);
        collect<1, 0>(dv, sums, terms, dv_unit);
      }
      start_gradient<0>(sums, gradients, q);
      sync_warpgroup();
      if constexpr (kSlabs == 1) {
        collect<0, 0>(dk, sums, gradients, dk_unit);
      } else {
        Sums more;
        start_gradient<1>(more, gradients, q);
        collect<0, 1>(dk, sums, gradients, dk_unit);
        collect<1, 0>(dk, more, gradients, dk_unit);
      }
      memory.rows_free(stage).arrive();
      add_dq(work_index, index, tile, dq_unit);
      ++index;
      if (++tile == end) {
        tile = begin;
        index += tiles_of_head(args) - (end - begin);
      }
    }
    memory.keys_free().arrive();
  }

  // Stores dK or dV; keys past the sequence length get zeros.
  __device__ __forceinline__ void store(const Work& work, const Tensor& tensor, int columns,
                                        const float (&c)[kD / 2]) const {
    float* const to = static_cast<float*>(tensor.data) +
                      head_offset(tensor, work.b, work.head, work.sequence.k_begin + work.first_key);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = consumer * 64 + thread() / 32 * 16 + lane_index() / 4 + 8 * h;
      const bool valid = work.first_key + row < work.sequence.seqlen_k;
#pragma unroll
      for (int i = 0; i < kD / 8; ++i) {
        const int column = i * 8 + lane_index() % 4 * 2;
        if (row >= work.keys_written || column >= columns) continue;
        *reinterpret_cast<float2*>(to + row * tensor.row + column) =
            make_float2(valid ? c[4 * i + 2 * h] : 0, valid ? c[4 * i + 2 * h + 1] : 0);
      }
    }
  }
};

template <int kD>
__global__ void __launch_bounds__(kBackwardThreads, 1)
    fp32_backward_kernel(const __grid_constant__ Fp32BackwardArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if (*args.terms.spread != 0) return;
  const Fp32BackwardMemory<kD> memory;
  if (threadIdx.x == 0) memory.begin_barriers();
  block_sync();
  const int warpgroup = same_for_warp(static_cast<int>(threadIdx.x) / 128);
  if (warpgroup == 0) {
    warpgroup_reg_dealloc<kFp32LoaderRegisters>();
    if (threadIdx.x < 32) Fp32BackwardLoader<kD>{args, memory}.run();
  } else {
    warpgroup_reg_alloc<kFp32ConsumerRegisters>();
    Fp32BackwardConsumer<kD>{args, memory, warpgroup - 1}.run();
  }
#endif
}

template <int kD>
void Fp32BackwardKernels<kD>::launch(const BackwardLaunch& launch, const Fp32SplitArgs& args) {
  const SequenceParams& p = args.params;
  const std::int64_t row_tiles = std::int64_t{p.batch} * p.heads_q * args.row_tiles;
  const std::int64_t key_tiles = std::int64_t{p.batch} * p.heads_kv * args.key_tiles;
  launch_kernel(fp32_split_kernel<kD>,
                {"hopper backward, fp32, split", row_tiles + key_tiles, kSplitThreads,
                 2 * kSplitThreads / kWarpLanes * sizeof(std::uint32_t), launch.stream},
                args);
  launch_kernel<Fp32BackwardArgs>(fp32_backward_kernel<kD>,
                                  {"hopper backward, fp32", std::min<std::int64_t>(key_tiles, launch.multiprocessors),
                                   kBackwardThreads, launch.config.shared_bytes, launch.stream},
                                  args);
  Fp32RoundArgs round;
  static_cast<RoundDqArgs&>(round) = args;
  round.spread = args.terms.spread;
  launch_kernel(fp32_round_dq_kernel<kD>,
                {"hopper backward, fp32, dQ", row_tiles, Fp32DqFragment<kD>::kThreads, 0, launch.stream}, round);
}

}  // namespace strobe::cuda::sm90
