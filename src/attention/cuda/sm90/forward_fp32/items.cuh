// Shared memory and work order of the Hopper forward for fp32; used by split.cuh and kernel.cuh. ItemStream lists the
// items that the splitter threads load, which are groups of rows of Q, K or V. Their order for a row tile is K of the
// last key tile, Q, V of the last key tile, then K and V of each earlier key tile. ItemStream also prefetches later
// items to the L2 cache.
#pragma once

#include "attention/cuda/sm90/device/barrier.cuh"
#include "attention/cuda/sm90/device/wgmma.cuh"
#include "attention/cuda/sm90/forward/work.cuh"
#include "attention/cuda/sm90/forward_fp32/launch.h"

namespace strobe::cuda::sm90 {

// Shared-memory layout of a block.
template <int kD, Fp32Shape kShape>
struct Fp32Memory {
  static constexpr int kRows = rows_of(kShape), kKeys = kShape.keys;
  static constexpr int kStages = kShape.stages, kQStages = kShape.q_stages;
  static constexpr int kSplitterRegisters = splitter_registers(kShape);
  static constexpr int kConsumerRegisters = consumer_registers(kShape);
  // A splitter thread copies 8 elements at a time: kLanes adjacent threads copy a row, and all threads together kStep
  // rows.
  static constexpr int kThreads = 128 * kShape.splitters, kLanes = kD / 8, kStep = kThreads / kLanes;
  static constexpr int kPieceRows = piece_rows(kD, kShape), kPieces = kKeys / kPieceRows;  // items per tile of K or V
  static constexpr int kQPieces = kRows / kPieceRows;
  static_assert(kKeys % kPieceRows == 0 && kRows % kPieceRows == 0 && kPieces <= 4 && kPieceRows % 32 == 0);
  // Bytes of the first fp16 floats of a tile; the second fp16 floats follow.
  static constexpr std::uint32_t kQPart = kSlabsBytes<kRows, kD>, kKeyPart = kSlabsBytes<kKeys, kD>;
  static constexpr std::uint32_t kScales = fp32_tile_bytes(kD, kShape);
  static constexpr std::uint32_t kPieceScales = kScales + 4 * (kQStages * kRows + 2 * kStages * kKeys);
  static constexpr std::uint32_t kExchange = kScales + fp32_scale_bytes(kShape);
  static constexpr std::uint32_t kBarriers = kExchange + kFp32ExchangeBytes;
  static constexpr std::uint32_t kWorkTiles = kBarriers + 8 * fp32_barriers(kShape);
  static_assert(kScales % 1024 == 0 && kExchange % 16 == 0 && kWorkTiles % 16 == 0);
  static_assert(kWorkTiles + 16 * kQStages == fp32_shared_bytes(kD, kShape));
  std::uint32_t base = shared_base();

  __device__ __forceinline__ std::uint32_t q(int stage) const { return at(stage * 2 * kQPart); }
  __device__ __forceinline__ std::uint32_t k(int stage) const { return q(kQStages) + at_stage(stage, 2 * kKeyPart); }
  __device__ __forceinline__ std::uint32_t v(int stage) const { return k(kStages) + at_stage(stage, 2 * kKeyPart); }
  // Per row: the fp32 factor that undoes its scale.
  __device__ __forceinline__ std::uint32_t q_scales(int stage) const { return at(kScales + stage * kRows * 4); }
  __device__ __forceinline__ std::uint32_t k_scales(int stage) const {
    return q_scales(kQStages) + at_stage(stage, kKeys * 4);
  }
  __device__ __forceinline__ std::uint32_t v_scales(int stage) const {
    return k_scales(kStages) + at_stage(stage, kKeys * 4);
  }
  // Per item of K or V: the factor that undoes the scale of all its rows; 0 if each row has its own scale.
  __device__ __forceinline__ std::uint32_t k_piece_scales(int stage) const { return at(kPieceScales + stage * 16); }
  __device__ __forceinline__ std::uint32_t v_piece_scales(int stage) const { return k_piece_scales(kStages + stage); }
  // Exchange between splitter threads: four buffers with two magnitudes per warp, and four row tiles (Fp32Rows).
  __device__ __forceinline__ std::uint32_t sizes(int index) const { return at(kExchange + index * 64); }
  __device__ __forceinline__ std::uint32_t rows(int turn) const { return sizes(4 + turn % 4); }
  // "full": all splitter threads have written all items of the tile. "free" (empty): all consumer threads have read it.
  __device__ __forceinline__ Barrier q_full(int stage) const { return barrier(stage); }
  __device__ __forceinline__ Barrier q_free(int stage) const { return barrier(kQStages + stage); }
  __device__ __forceinline__ Barrier k_full(int stage) const { return barrier(2 * kQStages + stage); }
  __device__ __forceinline__ Barrier k_free(int stage) const { return barrier(2 * kQStages + kStages + stage); }
  __device__ __forceinline__ Barrier v_full(int stage) const { return barrier(2 * kQStages + 2 * kStages + stage); }
  __device__ __forceinline__ Barrier v_free(int stage) const { return barrier(2 * kQStages + 3 * kStages + stage); }
  // WorkTile of the row tile whose Q is in this stage.
  __device__ __forceinline__ std::uint32_t work_tile(int stage) const { return at(kWorkTiles + stage * 16); }

  __device__ __forceinline__ void begin_barriers() const {
    const auto begin = [](Barrier full, Barrier free, int pieces) {
      full.begin(kThreads * pieces);
      free.begin(128 * kShape.consumers);
    };
    for (int stage = 0; stage < kQStages; ++stage) begin(q_full(stage), q_free(stage), 1);
    for (int stage = 0; stage < kStages; ++stage) {
      begin(k_full(stage), k_free(stage), kPieces);
      begin(v_full(stage), v_free(stage), kPieces);
    }
  }

 private:
  __device__ __forceinline__ std::uint32_t at(std::uint32_t bytes) const { return base + bytes; }
  __device__ static __forceinline__ std::uint32_t at_stage(int stage, std::uint32_t bytes) {
    return static_cast<std::uint32_t>(stage) * bytes;
  }
  __device__ __forceinline__ Barrier barrier(int index) const {
    return {at(kBarriers + static_cast<std::uint32_t>(index) * 8)};
  }
};

// Row tile for the splitter threads. One thread computes it and shares it through shared memory. Row indices are
// relative to the tile, key indices to the sequence.
struct Fp32Rows {
  const float *q = nullptr, *k = nullptr, *v = nullptr;  // addresses of row 0 and key 0
  Keys rows{0, 0}, used{0, 0};                           // rows that exist; keys that at least one row uses
  int begin = 0, end = 0;                                // key tiles [begin, end); both -1: no more row tiles

  __device__ __forceinline__ void store(std::uint32_t address, const WorkTile& work_tile) const {
    const auto low = [](const float* x) { return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(x)); };
    const auto high = [](const float* x) {
      return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(x) >> 32);
    };
    const auto bits = [](int x) { return static_cast<std::uint32_t>(x); };
    store_work_tile(address, work_tile);
    store_shared(address + 16, {low(q), high(q), bits(rows.lo), bits(rows.hi)});
    store_shared(address + 32, {low(k), high(k), low(v), high(v)});
    store_shared(address + 48, {bits(used.lo), bits(used.hi), bits(begin), bits(end)});
  }

  // The values are marked warp-uniform, so that the compiler keeps them in uniform registers.
  __device__ static __forceinline__ Fp32Rows load(std::uint32_t address) {
    const auto word = [&](std::uint32_t at) { return same_for_warp(load_shared(address + at)); };
    const auto number = [&](std::uint32_t at) { return static_cast<int>(word(at)); };
    const auto pointer = [&](std::uint32_t at) {
      return reinterpret_cast<const float*>(word(at) | static_cast<std::uint64_t>(word(at + 4)) << 32);
    };
    return {.q = pointer(16),
            .k = pointer(32),
            .v = pointer(40),
            .rows = {number(24), number(28)},
            .used = {number(48), number(52)},
            .begin = number(56),
            .end = number(60)};
  }

  __device__ __forceinline__ bool has_keys() const { return begin < end; }
};

// Range `there` relative to `first`.
__device__ __forceinline__ Keys moved(const Keys& there, int first) { return {there.lo - first, there.hi - first}; }

// nothing: no item is in flight yet. no_keys: the only item of a row tile without keys. end: no more row tiles.
enum class ItemKind { nothing, no_keys, end, q, k, v };

// One item: some rows of a tile of Q, K or V.
struct Item {
  ItemKind kind = ItemKind::nothing;
  int piece = 0;                // index of the item within its tile
  const float* from = nullptr;  // first row
  std::int64_t stride = 0;      // elements from one row to the next
  Keys there{0, 0};             // valid rows; the others become zeros
  int columns = 0;
};

template <int kD, Fp32Shape kShape>
class ItemStream {
 public:
  using Memory = Fp32Memory<kD, kShape>;
  static constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys;
  static constexpr int kPieces = Memory::kPieces, kQPieces = Memory::kQPieces;

  __device__ __forceinline__ ItemStream(const Fp32ForwardArgs& args, const Memory& memory)
      : args_(args), memory_(memory) {
    find_rows(0);
  }

  // Returns the next item. All splitter threads must call it together.
  __device__ __forceinline__ Item next() {
    if (left_ == 0) begin_rows();
    if (left_ == find_at_) {
      find_rows(turn_ + 1);
      fetch_rows(Fp32Rows::load(memory_.rows(turn_ + 1)));
    }
    const int step = count_of(rows_) - left_--;
    if (!rows_.has_keys()) return {.kind = rows_.end < 0 ? ItemKind::end : ItemKind::no_keys};
    // Order: K, Q, V, K of the previous tile, its V, ...
    const Fp32ForwardParams& p = args_.params;
    const bool is_q = step >= kPieces && step < kPieces + kQPieces;
    const int keys_step = step < kPieces ? step : step - kQPieces;
    const bool is_k = keys_step / kPieces % 2 == 0;
    Item item{.kind = is_q   ? ItemKind::q
                      : is_k ? ItemKind::k
                             : ItemKind::v,
              .piece = is_q ? step - kPieces : keys_step % kPieces,
              .from = is_q   ? rows_.q
                      : is_k ? rows_.k
                             : rows_.v,
              .stride = is_q   ? p.q.row
                        : is_k ? p.k.row
                               : p.v.row,
              .columns = is_q || is_k ? p.d : p.dv_dim};
    const int tile = rows_.end - 1 - keys_step / (2 * kPieces);
    const int first = (is_q ? 0 : tile * kKeys) + item.piece * Memory::kPieceRows;
    item.from += first * item.stride;
    item.there = moved(is_q ? rows_.rows : rows_.used, first);
    if (!is_q && item.piece == 0 && tile - 2 >= rows_.begin) {  // prefetches two tiles ahead
      fetch<kKeys>(item.from - 2 * kKeys * item.stride, item.stride, moved(item.there, -2 * kKeys), item.columns);
    }
    return item;
  }

 private:
  // With a work counter, the block takes the next row tile when this many items are left: K and V of one key tile. With
  // an earlier request, a block with a long tile would hold another row tile that idle blocks could process. With a
  // static order the block computes the next row tile at once.
  static constexpr int kLate = 2 * kPieces;

  __device__ static __forceinline__ int count_of(const Fp32Rows& rows) {
    return rows.has_keys() ? kQPieces + 2 * kPieces * (rows.end - rows.begin) : 1;
  }

  // Starts the next row tile, which find_rows() has stored.
  __device__ __forceinline__ void begin_rows() {
    ++turn_;
    rows_ = Fp32Rows::load(memory_.rows(turn_));
    left_ = count_of(rows_);
    find_at_ = rows_.end < 0 ? 0 : args_.scheduler.next ? min(left_, kLate) : left_;
  }

  // One thread computes the row tile and stores it for all.
  __device__ __forceinline__ void find_rows(int turn) const {
    if (threadIdx.x == 0) store_rows(args_.scheduler.index(static_cast<std::uint32_t>(turn)), turn);
    // Row tiles have four slots (Fp32Memory::rows()), so no thread still reads the slot that is written next.
    barrier_sync(1, Memory::kThreads);
  }

  __device__ __forceinline__ void store_rows(std::uint32_t index, int turn) const {
    const Fp32ForwardParams& p = args_.params;
    const WorkTile work_tile = args_.scheduler.at(index);
    if (work_tile.b < 0) return Fp32Rows{.begin = -1, .end = -1}.store(memory_.rows(turn), work_tile);
    const ForwardWork<kRows, kKeys, true, true> work(args_, work_tile);
    const Sequence& sequence = work.sequence;
    const int head_kv = work_tile.head / p.group;
    const auto at = [&](const Tensor& tensor, int head, std::int64_t row) {
      return static_cast<const float*>(tensor.data) + head_offset(tensor, work_tile.b, head, row);
    };
    const Fp32Rows rows{.q = at(p.q, work_tile.head, sequence.q_begin + work.first_row),
                        .k = at(p.k, head_kv, sequence.k_begin),
                        .v = at(p.v, head_kv, sequence.k_begin),
                        .rows = {max(0, -work.first_row), sequence.seqlen_q - work.first_row},
                        .used = work.used,
                        .begin = work.begin,
                        .end = work.end};
    rows.store(memory_.rows(turn), work_tile);
  }

  // Prefetches Q and the last two key tiles of a row tile.
  __device__ __forceinline__ void fetch_rows(const Fp32Rows& rows) const {
    if (!rows.has_keys()) return;
    const Fp32ForwardParams& p = args_.params;
    const int first = max(rows.begin, rows.end - 2) * kKeys;
    const Keys there = moved(rows.used, first);
    fetch<kRows>(rows.q, p.q.row, rows.rows, p.d);
    fetch<2 * kKeys>(rows.k + first * p.k.row, p.k.row, there, p.d);
    fetch<2 * kKeys>(rows.v + first * p.v.row, p.v.row, there, p.dv_dim);
  }

  // Prefetches up to kCount rows to the L2 cache: one row per thread, or all with one instruction if they are
  // contiguous.
  template <int kCount>
  __device__ __forceinline__ void fetch(const float* from, std::int64_t stride, const Keys& there, int columns) const {
    static_assert(kCount <= Memory::kThreads);
    const int lo = max(0, there.lo), hi = min(kCount, there.hi), row = static_cast<int>(threadIdx.x);
    if (stride == columns) {
      if (row == 0 && lo < hi) fetch_bytes(from + lo * stride, static_cast<std::uint32_t>((hi - lo) * columns * 4));
    } else if (row >= lo && row < hi) {
      fetch_bytes(from + row * stride, static_cast<std::uint32_t>(columns * 4));
    }
  }

  __device__ static __forceinline__ void fetch_bytes(const float* from, std::uint32_t bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes));
  }

  const Fp32ForwardArgs& args_;
  const Memory& memory_;
  int turn_ = -1;    // index of the current row tile among those of this block
  int left_ = 0;     // items left of this row tile
  int find_at_ = 0;  // value of left_ at which to find the next row tile; 0: there is none
  Fp32Rows rows_;
};

}  // namespace strobe::cuda::sm90
