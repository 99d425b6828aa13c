// What the splitting threads of the Hopper forward for fp32 work off, in order: of every tile of rows its last keys, Q,
// their V, then keys and V tile by tile. Also brings what comes later into the L2 cache.
#pragma once

#include "attention/cuda/sm90/forward/work.cuh"
#include "attention/cuda/sm90/forward_fp32/args.h"
#include "attention/cuda/sm90/forward_fp32/memory.cuh"

namespace strobe::cuda::sm90 {

// A tile of rows as the splitting threads see it, in shared memory: one of them finds it out, and no one has registers
// for it. Rows and keys count from 0 in the tile and in the sequence.
struct Fp32Rows {
  std::uint32_t address;  // 64 bytes

  struct Pointers {
    const float *q, *k, *v;  // row 0, key 0
  };
  struct Tensor {
    const float* from;
    Keys there;  // rows that are
  };
  struct Tiles {
    int begin, end;  // of keys; both -1: no more tiles of rows
  };

  __device__ __forceinline__ void store(const TilePlace& place, const Pointers& p, const Keys& rows, const Keys& used,
                                        const Tiles& tiles) const {
    const auto low = [](const float* x) { return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(x)); };
    const auto high = [](const float* x) {
      return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(x) >> 32);
    };
    const auto bits = [](int x) { return static_cast<std::uint32_t>(x); };
    store_place(address, place);
    store_shared(address + 16, {low(p.q), high(p.q), bits(rows.lo), bits(rows.hi)});
    store_shared(address + 32, {low(p.k), high(p.k), low(p.v), high(p.v)});
    store_shared(address + 48, {bits(used.lo), bits(used.hi), bits(tiles.begin), bits(tiles.end)});
  }

  __device__ __forceinline__ TilePlace place() const { return load_place(address); }
  __device__ __forceinline__ Tiles tiles() const { return {number(56), number(60)}; }
  __device__ __forceinline__ Tensor q() const { return {pointer(16), {number(24), number(28)}}; }
  __device__ __forceinline__ Tensor k() const { return {pointer(32), {number(48), number(52)}}; }
  __device__ __forceinline__ Tensor v() const { return {pointer(40), {number(48), number(52)}}; }

 private:
  // The same for all, told to the compiler.
  __device__ __forceinline__ std::uint32_t word(std::uint32_t at) const {
    return same_for_warp(load_shared(address + at));
  }
  __device__ __forceinline__ int number(std::uint32_t at) const { return static_cast<int>(word(at)); }
  __device__ __forceinline__ const float* pointer(std::uint32_t at) const {
    return reinterpret_cast<const float*>(word(at) | static_cast<std::uint64_t>(word(at + 4)) << 32);
  }
};

// Rows that are there, counted from `first` on.
__device__ __forceinline__ Keys moved(const Keys& there, int first) { return {there.lo - first, there.hi - first}; }

// nothing: before the first. no_keys: a tile of rows without any, which has no items but this. end: no more tiles.
enum class ItemKind { nothing, no_keys, end, q, k, v };

// A piece of a tile of Q, K or V on its way.
struct Item {
  ItemKind kind = ItemKind::nothing;
  int piece = 0;  // which
  const float* from = nullptr;
  std::int64_t stride = 0;
  Keys there{0, 0};  // rows that are; the others are to be zeros
  int columns = 0;
};

template <int kD, Fp32Shape kShape>
class ItemStream {
 public:
  using Memory = Fp32Memory<kD, kShape>;
  static constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys;
  static constexpr int kPieces = Memory::kPieces, kQPieces = kRows / Memory::kPieceRows;

  __device__ __forceinline__ ItemStream(const Fp32ForwardArgs& args, const Memory& memory)
      : args_(args), memory_(memory) {
    if (threadIdx.x == 0) {
      find_rows(args_.order.index(0), 0);
      store_shared(memory_.next_index(), args_.order.index(1));
    }
    barrier_sync(1, Memory::kThreads);
  }

  // For all splitting threads together.
  __device__ __forceinline__ Item next() {
    if (left_ == 0) begin_rows();
    const Fp32Rows rows{memory_.rows(turn_)};
    const Fp32Rows::Tiles tiles = rows.tiles();
    const int step = count_of(tiles) - left_--;
    if (tiles.begin == tiles.end) return {.kind = tiles.end < 0 ? ItemKind::end : ItemKind::no_keys};
    // K, Q, V, K of the tile before, V of that, ...
    const Params& p = args_.params;
    const bool is_q = step >= kPieces && step < kPieces + kQPieces;
    const int keys_step = step < kPieces ? step : step - kQPieces;
    const bool is_k = keys_step / kPieces % 2 == 0;
    const Fp32Rows::Tensor tensor = is_q ? rows.q() : is_k ? rows.k() : rows.v();
    Item item{.kind = is_q   ? ItemKind::q
                      : is_k ? ItemKind::k
                             : ItemKind::v,
              .piece = is_q ? step - kPieces : keys_step % kPieces,
              .from = tensor.from,
              .stride = is_q   ? p.q.row
                        : is_k ? p.k.row
                               : p.v.row,
              .there = tensor.there,
              .columns = is_q || is_k ? p.d : p.dv_dim};
    const int tile = tiles.end - 1 - keys_step / (2 * kPieces);
    const int first = (is_q ? 0 : tile * kKeys) + item.piece * Memory::kPieceRows;
    item.from += first * item.stride;
    item.there = moved(tensor.there, first);
    if (!is_q && item.piece == 0 && tile - 2 >= tiles.begin) {  // the tile but one, to the L2 cache
      fetch<kKeys>(item.from - 2 * kKeys * item.stride, item.stride, moved(item.there, -2 * kKeys), item.columns);
    }
    return item;
  }

 private:
  __device__ static __forceinline__ int count_of(const Fp32Rows::Tiles& tiles) {
    return tiles.begin == tiles.end ? 1 : kQPieces + 2 * kPieces * (tiles.end - tiles.begin);
  }

  // The tile of rows after this one, which was found before; the one after it is found.
  __device__ __forceinline__ void begin_rows() {
    ++turn_;
    const Fp32Rows::Tiles tiles = Fp32Rows{memory_.rows(turn_)}.tiles();
    left_ = count_of(tiles);
    if (tiles.end < 0) return;
    if (threadIdx.x == 0) {
      find_rows(load_shared(memory_.next_index()), turn_ + 1);
      store_shared(memory_.next_index(), args_.order.index(static_cast<std::uint32_t>(turn_) + 2));
    }
    barrier_sync(1, Memory::kThreads);  // of four tiles that are held, no one reads the one that is written next
    fetch_rows(Fp32Rows{memory_.rows(turn_ + 1)});
  }

  __device__ __forceinline__ void find_rows(std::uint32_t index, int turn) const {
    const Params& p = args_.params;
    const Fp32Rows rows{memory_.rows(turn)};
    const TilePlace place = args_.order.at(index);
    if (place.b < 0) return rows.store(place, {}, {0, 0}, {0, 0}, {-1, -1});
    const ForwardWork<kRows, kKeys, true, true> work(args_, place);
    const Sequence& sequence = work.sequence;
    const int head_kv = place.head / p.group;
    const auto at = [&](const Tensor& tensor, int head, std::int64_t row) {
      return static_cast<const float*>(tensor.data) + head_offset(tensor, place.b, head, row);
    };
    rows.store(place,
               {.q = at(p.q, place.head, sequence.q_begin + work.first_row),
                .k = at(p.k, head_kv, sequence.k_begin),
                .v = at(p.v, head_kv, sequence.k_begin)},
               {max(0, -work.first_row), sequence.q_length - work.first_row}, work.used, {work.begin, work.end});
  }

  // The first items of a tile of rows to the L2 cache.
  __device__ __forceinline__ void fetch_rows(const Fp32Rows& rows) const {
    const Params& p = args_.params;
    const Fp32Rows::Tiles tiles = rows.tiles();
    if (tiles.begin == tiles.end) return;
    const int first = max(tiles.begin, tiles.end - 2) * kKeys;
    const auto keys = [&](const Fp32Rows::Tensor& tensor, std::int64_t stride, int columns) {
      fetch<2 * kKeys>(tensor.from + first * stride, stride, moved(tensor.there, first), columns);
    };
    fetch<kRows>(rows.q().from, p.q.row, rows.q().there, p.d);
    keys(rows.k(), p.k.row, p.d);
    keys(rows.v(), p.v.row, p.dv_dim);
  }

  // Lines of 128 bytes.
  template <int kCount>
  __device__ __forceinline__ void fetch(const float* from, std::int64_t stride, const Keys& there, int columns) const {
    constexpr int kLines = kD / 32;
#pragma unroll 1
    for (int line = static_cast<int>(threadIdx.x); line < kCount * kLines; line += Memory::kThreads) {
      const int row = line / kLines, column = line % kLines * 32;
      if (row >= there.lo && row < there.hi && column < columns) {
        asm volatile("prefetch.global.L2 [%0];" ::"l"(from + row * stride + column));
      }
    }
  }

  const Fp32ForwardArgs& args_;
  const Memory& memory_;
  int turn_ = -1;  // of tiles of rows
  int left_ = 0;   // items of this one
};

}  // namespace strobe::cuda::sm90
