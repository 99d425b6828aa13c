// Data movement of the Hopper backward for fp32: shared-memory layout, the kernel that splits tiles to the workspace,
// and the producer that loads them to shared memory.
#pragma once

#include <climits>

#include "attention/cuda/device/dq_tiles.cuh"
#include "attention/cuda/device/element.cuh"
#include "attention/cuda/device/sequence.cuh"
#include "attention/cuda/device/softmax.cuh"
#include "attention/cuda/device/tile.cuh"
#include "attention/cuda/sm90/backward/work.cuh"
#include "attention/cuda/sm90/backward_fp32/launch.h"
#include "attention/cuda/sm90/device/barrier.cuh"
#include "attention/cuda/sm90/device/wgmma.cuh"

namespace strobe::cuda::sm90 {

// Shared-memory layout of a block.
template <int kD>
struct Fp32BackwardMemory {
  static constexpr BackwardShape kShape = fp32_backward_shape(kD);
  static constexpr int kRows = kShape.rows, kKeys = kShape.keys, kStages = kBackwardStages;
  // Bytes of a tile, with both split floats of each element.
  static constexpr std::uint32_t kKeyBytes = kKeys * fp32_split_bytes(kD), kRowBytes = kRows * fp32_split_bytes(kD),
                                 kFactBytes = fp32_fact_bytes(kShape);
  std::uint32_t base = shared_base();

  __device__ __forceinline__ std::uint32_t k() const { return base; }              // [2 split floats][keys][kD]
  __device__ __forceinline__ std::uint32_t v() const { return base + kKeyBytes; }  // [2 split floats][keys][kD]
  // [2 split floats][rows][kD]
  __device__ __forceinline__ std::uint32_t q(int stage) const { return base + kRowsAt + at_stage(stage, kRowBytes); }
  __device__ __forceinline__ std::uint32_t d_o(int stage) const { return q(kStages + stage); }
  // Score gradients of a warpgroup's keys, [2 split floats][64 keys][64 rows], of which kRows rows are used.
  __device__ __forceinline__ std::uint32_t gradients(int consumer) const {
    return base + kGradientsAt + at_stage(consumer, 2 * kFp32GradientBytes);
  }
  // sm80::RowFacts per row, followed by the factors that undo the scales of Q, dO, K and V.
  __device__ __forceinline__ std::uint32_t facts(int stage) const {
    return base + kFactsAt + at_stage(stage, kFactBytes);
  }
  __device__ __forceinline__ std::uint32_t q_scale(int stage) const { return facts(stage) + 16 * kRows; }
  __device__ __forceinline__ std::uint32_t d_o_scale(int stage) const { return q_scale(stage) + 4; }
  __device__ __forceinline__ std::uint32_t k_scale(int stage) const { return q_scale(stage) + 8; }
  __device__ __forceinline__ std::uint32_t v_scale(int stage) const { return q_scale(stage) + 12; }
  // Largest magnitude of the score gradients, one word per warp of a warpgroup.
  __device__ __forceinline__ std::uint32_t sizes(int consumer) const {
    return base + kBarriersAt + 128 + at_stage(consumer, 16);
  }
  // Two words per warpgroup: begin and end of the rows for which no key of the warpgroup is masked.
  __device__ __forceinline__ std::uint32_t unmasked_rows(int consumer) const {
    return base + kBarriersAt + 160 + at_stage(consumer, 8);
  }
  __device__ __forceinline__ std::uint32_t work_index(int stage) const {
    return base + kBarriersAt + 192 + at_stage(stage, 4);
  }

  // "full": the data has arrived. "free" (empty): all consumer threads have read it.
  __device__ __forceinline__ Barrier keys_full() const { return barrier(0); }
  __device__ __forceinline__ Barrier keys_free() const { return barrier(1); }
  __device__ __forceinline__ Barrier rows_full(int stage) const { return barrier(2 + stage); }
  __device__ __forceinline__ Barrier rows_free(int stage) const { return barrier(2 + kStages + stage); }
  __device__ __forceinline__ Barrier work_full(int stage) const { return barrier(2 + 2 * kStages + stage); }
  __device__ __forceinline__ Barrier work_free(int stage) const { return barrier(4 + 2 * kStages + stage); }

  __device__ __forceinline__ void begin_barriers() const {
    constexpr int kReaders = kBackwardConsumers * 128;
    keys_full().begin(1);
    keys_free().begin(kReaders);
    for (int stage = 0; stage < kStages; ++stage) {
      rows_full(stage).begin(33);  // the TMA arrival, and one per lane of the warp that stores statistics
      rows_free(stage).begin(kReaders);
    }
    for (int stage = 0; stage < 2; ++stage) {
      work_full(stage).begin(1);
      work_free(stage).begin(kReaders);
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

// The split kernel runs before the backward kernel. It splits tiles of Q, dO, K and V into two fp16 floats per element,
// and stores the floats in the shared-memory layout of MMA operands. A tile has one scale. If magnitudes differ too
// much for one scale, or |LSE| is large, the kernel sets the flag `spread`. flash2's kernel with three split floats
// then computes the problem. The check is cheap, because the kernel reads the inputs anyway.

inline constexpr int kSplitThreads = 256;
inline constexpr int kMostPowers = kept_powers(SplitFormat::scaled);  // limit of the ratio of magnitudes in a tile

// Index of a key tile of a KV head among all key tiles; counterpart of row_tile_index().
__device__ __forceinline__ std::int64_t key_tile_index(const Fp32BackwardArgs& args, const Sequence& sequence, int b,
                                                       int head, int tile) {
  const SequenceParams& p = args.params;
  if (p.packed) return head * args.terms.key_tiles_per_head + sequence.k_begin / kFp32BackwardKeys + b + tile;
  return (static_cast<std::int64_t>(b) * p.heads_kv + head) * args.key_tiles + tile;
}

// Distance between the row tile indices of adjacent query heads.
__device__ __forceinline__ int tiles_of_head(const RowTilesArgs& args) {
  return args.params.packed ? static_cast<int>(args.tiles_per_head) : args.row_tiles;
}

// The rows [first, first + kRows) of one head of a tensor.
struct RowsToSplit {
  const Tensor& tensor;
  std::int64_t head_at;  // offset of row 0
  int first, columns;
  Keys used;  // rows to read; the others become zeros
};

template <int kD, int kRows>
class TileSplitter {
  static constexpr int kLanes = kD / 8, kStep = kSplitThreads / kLanes, kCount = kRows / kStep;
  static_assert(kCount * kStep == kRows && kStep % 8 == 0);
  const int lane_ = static_cast<int>(threadIdx.x) % kLanes, row_ = static_cast<int>(threadIdx.x) / kLanes;
  float held_[kCount][8];

 public:
  __device__ __forceinline__ void load(const RowsToSplit& from) {
    const auto* const data = static_cast<const float*>(from.tensor.data) + from.head_at;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int row = from.first + row_ + i * kStep;
      const bool used = row >= from.used.lo && row < from.used.hi;
#pragma unroll
      for (int half = 0; half < 8; half += 4) {
        float4 four = make_float4(0, 0, 0, 0);
        const int column = lane_ * 8 + half;
        if (used && column < from.columns) {
          four = *reinterpret_cast<const float4*>(data + row * from.tensor.row + column);
        }
        held_[i][half] = four.x, held_[i][half + 1] = four.y, held_[i][half + 2] = four.z, held_[i][half + 3] = four.w;
      }
    }
  }

  // Splits the loaded tile to `to` and stores the factor that undoes its scale. All threads of the block must call it.
  // sizes: address of one shared-memory word per warp; each call needs its own. Returns true if this thread has 8
  // adjacent elements, not all zeros, whose largest magnitude is more than kMostPowers powers of two below the tile's:
  // their split floats would lose bits.
  __device__ __forceinline__ bool split(unsigned char* to, float* scale, std::uint32_t sizes) const {
    LargestFinite largest;
    int smallest = INT_MAX;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      LargestFinite of_eight;
#pragma unroll
      for (int e = 0; e < 8; ++e) of_eight.take(held_[i][e]);
      largest.bits = max(largest.bits, of_eight.bits);
      if (of_eight.bits > LargestFinite().bits) smallest = min(smallest, of_eight.bits);
    }
    largest.bits = warp_max(largest.bits);
    if (lane_index() == 0) {
      store_shared(sizes + static_cast<std::uint32_t>(warp_index() * 4), static_cast<std::uint32_t>(largest.bits));
    }
    block_sync();
#pragma unroll
    for (int warp = 0; warp < kSplitThreads / kWarpLanes; ++warp) {
      largest.bits = max(largest.bits, static_cast<int>(load_shared(sizes + static_cast<std::uint32_t>(warp * 4))));
    }
    const RowScale by(largest);
    if (threadIdx.x == 0) *scale = by.down;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      std::uint32_t terms[2][4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        std::uint32_t both[2];
        split_to_words<Fp32Scaled>(both, held_[i][2 * w] * by.up, held_[i][2 * w + 1] * by.up);
        terms[0][w] = both[0], terms[1][w] = both[1];
      }
      unsigned char* const at =
          to + lane_ / 8 * kSlabBytes<kRows> + (row_ + i * kStep) * 128 + ((lane_ ^ row_) & 7) * 16;
#pragma unroll
      for (int term = 0; term < 2; ++term) {
        *reinterpret_cast<uint4*>(at + term * kSlabsBytes<kRows, kD>) =
            make_uint4(terms[term][0], terms[term][1], terms[term][2], terms[term][3]);
      }
    }
    return largest.bits - smallest > kMostPowers << 23;
  }
};

// Splits the same tile of two tensors, Q and dO or K and V.
template <int kD, int kRows>
__device__ __forceinline__ void split_two(const RowsToSplit& a, const RowsToSplit& b, unsigned char* to_a,
                                          unsigned char* to_b, float* scales, std::uint32_t* spread) {
  TileSplitter<kD, kRows> splitter;
  splitter.load(a);
  const bool a_spread = splitter.split(to_a, scales, shared_base());
  splitter.load(b);
  const bool b_spread = splitter.split(to_b, scales + 1, shared_base() + kSplitThreads / kWarpLanes * 4);
  if (a_spread || b_spread) *spread = 1;  // every writer stores the same value
}

// The grid has one block per row tile of a query head, then one per key tile of a KV head.
template <int kD>
__global__ void __launch_bounds__(kSplitThreads) fp32_split_kernel(const __grid_constant__ Fp32SplitArgs args) {
  using Memory = Fp32BackwardMemory<kD>;
  constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys;
  constexpr std::int64_t kRowBytes = Memory::kRowBytes, kKeyBytes = Memory::kKeyBytes;
  const SequenceParams& p = args.params;
  const auto of_rows = static_cast<unsigned>(p.batch * p.heads_q) * static_cast<unsigned>(args.row_tiles);
  const bool is_rows = blockIdx.x < of_rows;
  const unsigned index = is_rows ? blockIdx.x : blockIdx.x - of_rows;
  const auto tiles = static_cast<unsigned>(is_rows ? args.row_tiles : args.key_tiles);
  const auto heads = static_cast<unsigned>(is_rows ? p.heads_q : p.heads_kv);
  const int tile = static_cast<int>(index % tiles), head = static_cast<int>(index / tiles % heads),
            b = static_cast<int>(index / tiles / heads);
  const Sequence sequence(p, b);
  if (sequence.seqlen_q == 0 || sequence.seqlen_k == 0) return;
  const auto rows_of = [&](const Tensor& tensor, int first, int columns, Keys used) {
    const std::int64_t begin = is_rows ? sequence.q_begin : sequence.k_begin;
    return RowsToSplit{tensor, head_offset(tensor, b, head, begin), first, columns, used};
  };
  const Fp32SplitTiles& to = args.terms;
  if (is_rows) {
    const int first = tile * kRows;
    if (first >= sequence.seqlen_q) return;
    if (const int row = first + static_cast<int>(threadIdx.x); threadIdx.x < kRows && row < sequence.seqlen_q) {
      if (is_large_lse(args.lse[lse_index(p, sequence, b, head, row)])) *to.spread = 1;
    }
    const std::int64_t at = row_tile_index(args, sequence, b, head, tile, kRows);
    const Keys used = sequence.rows_of(0, sequence.seqlen_k - 1);
    split_two<kD, kRows>(rows_of(args.q, first, p.d, used), rows_of(args.d_o, first, p.dv_dim, used),
                         to.q + at * kRowBytes, to.d_o + at * kRowBytes, to.row_scales + 2 * at, to.spread);
  } else {
    const int first = tile * kKeys;
    if (first >= sequence.seqlen_k) return;
    const std::int64_t at = key_tile_index(args, sequence, b, head, tile);
    const Keys used = sequence.some(0, sequence.seqlen_q - 1);
    split_two<kD, kKeys>(rows_of(args.k, first, p.d, used), rows_of(args.v, first, p.dv_dim, used),
                         to.k + at * kKeyBytes, to.v + at * kKeyBytes, to.key_scales + 2 * at, to.spread);
  }
}

template <int kD>
struct Fp32BackwardLoader {
  using Memory = Fp32BackwardMemory<kD>;
  static constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys;
  using Work = BackwardWork<kRows, kKeys>;

  const Fp32BackwardArgs& args;
  const Memory& memory;
  std::uint32_t work_items = 0, keys = 0, rows = 0;  // work items, key tiles and row tiles loaded so far

  __device__ __forceinline__ void run() {
    for (bool more = true; more;) {
      unsigned work_index = 0;
      const int lane = reread_thread_index();
      if (lane == 0) work_index = take_work_index(args.work_counter);
      work_index = same_for_warp(work_index);
      const auto stage = static_cast<int>(work_items % 2);
      memory.work_free(stage).wait(parity(work_items / 2));
      if (lane == 0) {
        store_shared(memory.work_index(stage), work_index);
        memory.work_full(stage).arrive();
      }
      ++work_items;
      more = work_index < backward_tiles(args);
      if (!more) return;
      const Work work(args, work_index);
      if (work.begin < work.end) load(work);
    }
  }

 private:
  // Phase parity of the "free" barrier for which to wait before a stage is filled. round: number of earlier fills.
  // Stages are free initially.
  __device__ static __forceinline__ std::uint32_t parity(std::uint32_t round) { return (round & 1) ^ 1; }

  // Loads in the order of use. Rows of the next key tile are prefetched while the block processes the last row tiles.
  __device__ __forceinline__ void load(const Work& work) {
    const SequenceParams& p = args.params;
    const int first_head = work.head * p.group, begin = work.begin, end = work.end, length = work.sequence.seqlen_q;
    auto index = static_cast<int>(row_tile_index(args, work.sequence, work.b, first_head, begin, kRows));
    const auto key_index = static_cast<int>(key_tile_index(args, work.sequence, work.b, work.head, work.tile));
    const sm80::RowFacts* facts = args.facts + lse_index(p, work.sequence, work.b, first_head, 0);  // row 0
#pragma unroll 1
    for (int head = 0; head < p.group; ++head) {
#pragma unroll 1
      for (int tile = begin; tile < end; ++tile) {
        load_rows(index + tile - begin, key_index, facts, tile * kRows, length);
        if (head == 0 && tile == begin) load_keys(key_index);
      }
      index += tiles_of_head(args);
      facts += p.total_q;
    }
  }

  __device__ __forceinline__ void load_keys(std::int64_t index) {
    memory.keys_free().wait(parity(keys++));
    if (reread_thread_index() != 0) return;
    const Barrier full = memory.keys_full();
    full.arrive_expecting(2 * Memory::kKeyBytes);
    copy_bytes(memory.k(), args.terms.k + index * Memory::kKeyBytes, Memory::kKeyBytes, full);
    copy_bytes(memory.v(), args.terms.v + index * Memory::kKeyBytes, Memory::kKeyBytes, full);
  }

  // index: row tile. key_index: key tile. facts: statistics of the head's `length` rows.
  __device__ __forceinline__ void load_rows(std::int64_t index, std::int64_t key_index, const sm80::RowFacts* facts,
                                            int first_row, int length) {
    static_assert(Memory::kStages == 2);
    const auto stage = static_cast<int>(rows % 2);
    const Barrier full = memory.rows_full(stage);
    memory.rows_free(stage).wait(parity(rows / 2));
    ++rows;
    const int lane = reread_thread_index();
    if (lane == 0) {
      full.arrive_expecting(2 * Memory::kRowBytes);
      copy_bytes(memory.q(stage), args.terms.q + index * Memory::kRowBytes, Memory::kRowBytes, full);
      copy_bytes(memory.d_o(stage), args.terms.d_o + index * Memory::kRowBytes, Memory::kRowBytes, full);
    }
#pragma unroll
    for (int i = 0; i < kRows; i += 32) {
      const int row = first_row + i + lane;
      float4 fact = make_float4(0, kMinusInfinity, 0, 0);  // past the end: probabilities are 0
      if (row < length) fact = reinterpret_cast<const float4*>(facts)[row];
      const std::uint32_t words[4] = {float_to_bits(fact.x), float_to_bits(fact.y), float_to_bits(fact.z),
                                      float_to_bits(fact.w)};
      store_shared(memory.facts(stage) + static_cast<std::uint32_t>((i + lane) * 16), words);
    }
    if (lane < 4) {
      const float* const scale =
          lane < 2 ? args.terms.row_scales + 2 * index : args.terms.key_scales + 2 * key_index - 2;
      store_shared(memory.q_scale(stage) + static_cast<std::uint32_t>(lane * 4), float_to_bits(scale[lane]));
    }
    full.arrive();
  }
};

}  // namespace strobe::cuda::sm90
