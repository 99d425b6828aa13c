// Splitter threads of the Hopper forward for fp32. They load rows from global memory into registers and scale them by a
// power of two to the top of fp16's range. Then they store two fp16 floats per element to shared memory. Each row of Q
// has its own scale. The rows of an item of K or V share one scale if their magnitudes are similar; otherwise each row
// has its own. A shared scale saves the consumers the work on individual scales.
#pragma once

#include <utility>

#include "attention/cuda/device/element.cuh"
#include "attention/cuda/device/tile.cuh"
#include "attention/cuda/sm90/forward_fp32/items.cuh"

namespace strobe::cuda::sm90 {

// The rows of an item have similar magnitudes if the largest of each 8 neighbouring elements is at most this many
// powers of two below the largest of the item. Groups of 8 zeros do not count. The split floats then keep bits down to
// 2^-29 of every row's largest element.
inline constexpr std::uint32_t kAlikePowers = 10;

__device__ __forceinline__ float4 load_global(const float* from) {
  float4 four;
  asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
               : "l"(from));
  return four;
}

template <int kD, Fp32Shape kShape>
class Splitter {
 public:
  using Memory = Fp32Memory<kD, kShape>;
  static constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys, kStep = Memory::kStep;
  static constexpr int kCount = Memory::kPieceRows / kStep;

  __device__ __forceinline__ explicit Splitter(const Memory& memory) : memory_(memory) {}

  // Stores the item held in registers held_[kPiece] to shared memory, and starts to load `after` into these registers.
  template <int kPiece>
  __device__ __forceinline__ void finish(const Item& item, const Item& after) {
    Held& held = held_[kPiece];
    lane_ = reread_thread_index() % Memory::kLanes, first_ = reread_thread_index() / Memory::kLanes;
    if (item.kind == ItemKind::k || item.kind == ItemKind::v) return finish_keys(held, item, after);
    if (item.kind == ItemKind::q) return finish_rows(held, item, after);
    begin(held, after);
    if (item.kind == ItemKind::nothing) return;
    wait_for_rows();
    pass_rows();
  }

  // Signals that there are no more tiles.
  __device__ __forceinline__ void end() {
    wait_for_rows();
    pass_rows();
  }

 private:
  using Held = float[kCount][8];

  __device__ __forceinline__ int row(int i) const { return first_ + i * kStep; }

  __device__ __forceinline__ void load(Held& held, int i, const Item& item) {
    const bool there = row(i) >= item.there.lo && row(i) < item.there.hi;
    const int column = lane_ * 8;
    const float* const from = item.from + row(i) * item.stride + column;
#pragma unroll
    for (int half = 0; half < 8; half += 4) {
      float4 four = make_float4(0, 0, 0, 0);
      if (there && column + half < item.columns) four = load_global(from + half);
      held[i][half] = four.x, held[i][half + 1] = four.y, held[i][half + 2] = four.z, held[i][half + 3] = four.w;
    }
  }

  __device__ __forceinline__ void begin(Held& held, const Item& item) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) load(held, i, item);
  }

  // Stores both split floats of 8 elements to a tile of kTileRows rows. tile: address of row 0 of this item.
  template <int kTileRows>
  __device__ __forceinline__ void put(Held& held, int i, float up, std::uint32_t tile) {
    warp_sync();  // keeps this put() behind the previous ones, to limit register use
    settle(held[i]);
    std::uint32_t terms[2][4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      std::uint32_t both[2];
      split_to_words<Fp32Scaled>(both, held[i][2 * w] * up, held[i][2 * w + 1] * up);
      terms[0][w] = both[0], terms[1][w] = both[1];
    }
    const std::uint32_t to = tile + static_cast<std::uint32_t>(lane_ / 8) * kSlabBytes<kTileRows> +
                             static_cast<std::uint32_t>(row(i) * 128 + ((lane_ ^ first_) & 7) * 16);
    store_shared(to, terms[0]);
    store_shared(to + kSlabsBytes<kTileRows, kD>, terms[1]);
  }

  __device__ __forceinline__ void publish_scale(int i, const RowScale& scale, std::uint32_t scales) const {
    if (lane_ == 0) store_shared(scales + static_cast<std::uint32_t>(row(i) * 4), float_to_bits(scale.down));
  }

  // Largest magnitude of 8 elements. kFinite: ignores non-finite elements, which affect only their own row.
  template <bool kFinite>
  __device__ static __forceinline__ float largest_of(const Held& held, int i) {
    if constexpr (kFinite) {
      LargestFinite largest;
#pragma unroll
      for (int e = 0; e < 8; ++e) largest.take(held[i][e]);
      return largest;
    }
    float largest = 0;
#pragma unroll
    for (int e = 0; e < 8; ++e) largest = fmaxf(largest, fabsf(held[i][e]));
    return largest;
  }

  __device__ static __forceinline__ float row_max(float value) {
#pragma unroll
    for (int step = 1; step < Memory::kLanes; step *= 2) value = fmaxf(value, shuffle_xor(value, step));
    return value;
  }

  // Largest magnitude of the item, and the smallest of the maxima of 8 elements that are not all zeros. Both are the
  // bits of fp32 values. The bits of non-negative floats, compared as integers, are ordered like the floats.
  struct Sizes {
    std::uint32_t largest, least;
    __device__ __forceinline__ bool alike() const { return least + (kAlikePowers << 23) >= largest; }
  };

  template <bool kFinite>
  __device__ __forceinline__ Sizes measure(const Held& held) {
    constexpr std::uint32_t kNone = 0x7f800000;  // infinity
    Sizes sizes{0, kNone};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const std::uint32_t bits = float_to_bits(largest_of<kFinite>(held, i));
      sizes.largest = max(sizes.largest, bits);
      sizes.least = min(sizes.least, bits == 0 ? kNone : bits);
    }
    sizes.largest = warp_max(sizes.largest);
    sizes.least = warp_min(sizes.least);
    // The buffers alternate, so no thread writes to this one again before all threads have synchronized once more.
    const std::uint32_t place = memory_.sizes((kFinite ? 2 : 0) + turn_);
    if (lane_index() == 0) {
      const auto warp = static_cast<std::uint32_t>(warp_index());
      store_shared(place + warp * 8, sizes.largest);
      store_shared(place + warp * 8 + 4, sizes.least);
    }
    barrier_sync(1, Memory::kThreads);
    if (!kFinite) turn_ ^= 1;
#pragma unroll
    for (std::uint32_t warp = 0; warp < Memory::kThreads / 32; warp += 2) {
      std::uint32_t two[4];
      load_shared(two, place + warp * 8);
      sizes.largest = max(sizes.largest, max(two[0], two[2]));
      sizes.least = min(sizes.least, min(two[1], two[3]));
    }
    return sizes;
  }

  __device__ __forceinline__ void finish_keys(Held& held, const Item& item, const Item& after) {
    const bool is_v = item.kind == ItemKind::v;
    Sizes sizes = measure<false>(held);
    if (sizes.largest >= 0x7f800000) sizes = measure<true>(held);  // an infinity must not set the scale of other rows
    if (item.piece == 0) (is_v ? memory_.v_free(at_.stage) : memory_.k_free(at_.stage)).wait(at_.parity ^ 1);
    const int stage = at_.stage + (is_v ? Memory::kStages : 0);  // stages of V follow those of K
    const auto before = static_cast<std::uint32_t>(item.piece * Memory::kPieceRows);
    const std::uint32_t tile = memory_.k(stage) + before * 128;
    const auto publish = [&](float scale) {
      if (threadIdx.x != 0) return;
      store_shared(memory_.k_piece_scales(stage) + static_cast<std::uint32_t>(item.piece * 4), float_to_bits(scale));
    };
    if (sizes.alike()) {
      const RowScale scale(bits_to_float(sizes.largest));
      publish(scale.down);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        put<kKeys>(held, i, scale.up, tile);
        load(held, i, after);
      }
    } else {
      publish(0);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const RowScale scale(row_max(largest_of<true>(held, i)));
        put<kKeys>(held, i, scale.up, tile);
        publish_scale(i, scale, memory_.k_scales(stage) + before * 4);
      }
    }
    publish_stores();
    (is_v ? memory_.v_full(at_.stage) : memory_.k_full(at_.stage)).arrive();
    if (is_v && item.piece == Memory::kPieces - 1) at_.move();
    if (!sizes.alike()) begin(held, after);
  }

  __device__ __forceinline__ void finish_rows(Held& held, const Item& item, const Item& after) {
    if (item.piece == 0) wait_for_rows();
    const auto before = static_cast<std::uint32_t>(item.piece * Memory::kPieceRows);
    const std::uint32_t tile = memory_.q(q_stage()) + before * 128;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const RowScale scale(row_max(largest_of<false>(held, i)));
      put<kRows>(held, i, scale.up, tile);
      publish_scale(i, scale, memory_.q_scales(q_stage()) + before * 4);
    }
    if (item.piece == Memory::kQPieces - 1) {
      pass_rows();
    } else {
      publish_stores();
    }
    begin(held, after);  // not earlier, because registers do not suffice for both items
  }

  __device__ __forceinline__ int q_stage() const { return passed_ % Memory::kQStages; }
  __device__ __forceinline__ void wait_for_rows() const {
    memory_.q_free(q_stage()).wait((static_cast<std::uint32_t>(passed_ / Memory::kQStages) & 1) ^ 1);
  }

  // Publishes a row tile to the consumers.
  __device__ __forceinline__ void pass_rows() {
    if (threadIdx.x == 0) store_work_tile(memory_.work_tile(q_stage()), load_work_tile(memory_.rows(passed_)));
    publish_stores();
    memory_.q_full(q_stage()).arrive();
    ++passed_;
  }

  const Memory& memory_;
  int turn_ = 0;                       // buffer index of measure()
  int passed_ = 0;                     // row tiles published
  int lane_, first_;                   // this thread's chunk of 8 columns, and its first row in the item
  PipelineState<Memory::kStages> at_;  // stage of the current key tile, for K and then for V
  Held held_[kShape.pieces];
};

template <int kD, Fp32Shape kShape>
__device__ __forceinline__ void split_items(const Fp32ForwardArgs& args, const Fp32Memory<kD, kShape>& memory) {
  constexpr int kPieces = kShape.pieces;
  static_assert(kPieces + 2 <= 4);  // row tiles in memory: one per item in flight, the current one and the next
  ItemStream<kD, kShape> stream(args, memory);
  Splitter<kD, kShape> splitter(memory);
  Item items[kPieces];  // items in flight; items[i] is in the registers held_[i]
  const auto step = [&]<int kPiece>() {
    Item& item = items[kPiece];
    if (item.kind == ItemKind::end) return false;
    const bool ends = items[(kPiece + kPieces - 1) % kPieces].kind == ItemKind::end;
    const Item after = ends ? Item{.kind = ItemKind::end} : stream.next();
    splitter.template finish<kPiece>(item, after);
    item = after;
    return true;
  };
  const auto round = [&]<int... kPiece>(std::integer_sequence<int, kPiece...>) {
    return (step.template operator()<kPiece>() && ...);
  };
  while (round(std::make_integer_sequence<int, kPieces>())) {
  }
  splitter.end();
}

}  // namespace strobe::cuda::sm90
