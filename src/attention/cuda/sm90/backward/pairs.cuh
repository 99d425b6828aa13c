// Hopper backward kernel for head dimension 256, in clusters of two blocks (pairs), launched by launch_kernels.cuh. A
// pair takes 128 keys of a KV head, 64 per block, and both blocks loop over the same row tiles. dK and dV stay in the
// registers of the block that owns the keys. Each block computes half of the columns of dQ for all 128 keys. Each block
// therefore also loads those columns of the other block's K. It receives the other block's dS of each row tile through
// distributed shared memory. dQ of a row tile is added to global memory once per 128 keys. Each block loads half of Q
// and dO and multicasts it to both. The dQ matmul of a row tile overlaps with the exponentials of the next one.
#pragma once

#include "attention/cuda/sm90/backward/dq.cuh"
#include "attention/cuda/sm90/backward/dropout.cuh"
#include "attention/cuda/sm90/backward/rows.cuh"
#include "attention/cuda/sm90/backward/scores.cuh"
#include "attention/cuda/sm90/backward/softcap.cuh"
#include "attention/cuda/sm90/backward/work.cuh"
#include "attention/cuda/sm90/device/alibi.cuh"
#include "attention/cuda/sm90/device/clear.cuh"
#include "attention/cuda/sm90/device/cluster.cuh"
#include "attention/cuda/sm90/device/load.cuh"
#include "attention/cuda/sm90/device/store.cuh"

namespace strobe::cuda::sm90 {

inline constexpr int kPairDim = 256;
inline constexpr BackwardShape kPairShape = backward_shape(kPairDim, Share::columns);
static_assert(cluster_blocks(kPairShape) == 2 && stages_of(kPairShape) == 2 && d_o_stages_of(kPairShape) == 1);

// Number of uses of a double buffer. stage() is the buffer of the next use, parity() the phase parity of its barrier.
struct Count {
  std::uint32_t n = 0;
  __device__ __forceinline__ int stage() const { return static_cast<int>(n & 1); }
  __device__ __forceinline__ std::uint32_t parity() const { return n >> 1 & 1; }
};

struct PairMemory {
  static constexpr int kD = kPairDim, kRows = kPairShape.rows, kKeys = kPairShape.keys, kStages = 2;  // stages of Q
  static constexpr std::uint32_t kTileBytes = kSlabsBytes<kKeys, kD>, kScoreBytes = kSlabsBytes<kKeys, kRows>,
                                 kFactBytes = kRows * 8;
  static_assert(kRows == 64 && kKeys == 64);  // row tiles and key tiles have the same size
  std::uint32_t base = shared_base();

  __device__ __forceinline__ std::uint32_t k() const { return base; }
  __device__ __forceinline__ std::uint32_t v() const { return base + kTileBytes; }
  __device__ __forceinline__ std::uint32_t q(int stage) const { return base + (2 + stage) * kTileBytes; }
  __device__ __forceinline__ std::uint32_t d_o() const { return q(kStages); }
  // Columns of the other block's K, [keys][kD / 2], from which this block computes its half of dQ.
  __device__ __forceinline__ std::uint32_t k_other() const { return base + 5 * kTileBytes; }
  // P, dS and the other block's dS, [keys][rows], double buffered.
  __device__ __forceinline__ std::uint32_t probabilities(int buffer) const {
    return k_other() + kTileBytes / 2 + buffer * kScoreBytes;
  }
  __device__ __forceinline__ std::uint32_t gradients(int buffer) const { return probabilities(2 + buffer); }
  __device__ __forceinline__ std::uint32_t others(int buffer) const { return probabilities(4 + buffer); }
  __device__ __forceinline__ std::uint32_t lse(int stage) const { return probabilities(6) + stage * kFactBytes; }
  __device__ __forceinline__ std::uint32_t delta(int stage) const { return lse(stage) + kRows * 4; }
  __device__ __forceinline__ std::uint32_t work_index(int stage) const { return lse(kStages) + 256 + stage * 4; }
  __device__ __forceinline__ std::uint32_t mail(int stage) const { return work_index(2 + stage); }

  __device__ __forceinline__ Barrier k_full() const { return barrier(0); }
  __device__ __forceinline__ Barrier v_full() const { return barrier(1); }  // both V and k_other() have arrived
  __device__ __forceinline__ Barrier keys_free() const { return barrier(2); }
  __device__ __forceinline__ Barrier q_full(int stage) const { return barrier(3 + stage); }
  __device__ __forceinline__ Barrier q_free(int stage) const { return barrier(5 + stage); }
  __device__ __forceinline__ Barrier d_o_full() const { return barrier(7); }
  __device__ __forceinline__ Barrier d_o_free() const { return barrier(8); }
  __device__ __forceinline__ Barrier work_full(int stage) const { return barrier(9 + stage); }
  __device__ __forceinline__ Barrier work_free(int stage) const { return barrier(11 + stage); }
  // Barriers of the work indices that the first block's loader sends to the second's.
  __device__ __forceinline__ Barrier mail_full(int stage) const { return barrier(13 + stage); }
  __device__ __forceinline__ Barrier mail_free(int stage) const { return barrier(15 + stage); }
  // others_full: the other block's dS has arrived. gradients_free: the dQ matmuls of both blocks have read this block's
  // dS.
  __device__ __forceinline__ Barrier others_full(int buffer) const { return barrier(17 + buffer); }
  __device__ __forceinline__ Barrier gradients_free(int buffer) const { return barrier(19 + buffer); }

  __device__ __forceinline__ void begin_barriers() const {
    k_full().begin(1);
    v_full().begin(1);
    keys_free().begin(2);
    d_o_full().begin(1);
    d_o_free().begin(4);  // one thread per warpgroup of both blocks, because multicast fills dO of both blocks
    for (int stage = 0; stage < 2; ++stage) {
      q_full(stage).begin(33);   // the TMA arrival, and one per lane of the warp that stores LSE and delta
      q_free(stage).begin(258);  // 256 threads of this block, for racecheck, and one per warpgroup of the other block
      work_full(stage).begin(1);
      work_free(stage).begin(256);
      mail_full(stage).begin(1);
      mail_free(stage).begin(1);
      others_full(stage).begin(1);
      gradients_free(stage).begin(4);
    }
    publish_barriers();
  }

 private:
  static constexpr std::uint32_t kBarriersAt = 5 * kTileBytes + kTileBytes / 2 + 6 * kScoreBytes + kStages * kFactBytes;
  static_assert(kBarriersAt + kPairBarrierBytes == backward_shared_bytes(kD, kPairShape));

  __device__ __forceinline__ Barrier barrier(int index) const {
    return {lse(kStages) + static_cast<std::uint32_t>(index) * 8};
  }
};

// The producer warp.
struct PairLoader {
  using Memory = PairMemory;
  static constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys, kD = Memory::kD;
  using Work = BackwardWork<kRows, 2 * kKeys>;

  const BackwardArgs& args;
  const Memory& memory;
  Count work_items{}, tiles_loaded{}, keys_loaded{};
  const int lane = lane_index();
  const unsigned rank = cluster_rank();

  // Both blocks work on the same key tile, so the first block takes the work index for both. After the key tiles each
  // block takes its own row tiles.
  __device__ __forceinline__ void run() {
    const unsigned tiles = backward_tiles(args);
    unsigned work_index = take_work_together();
    for (; work_index < tiles; work_index = take_work_together()) {
      hand_on(work_index);
      const Work work(args, work_index);
      if (work.begin < work.end) load(work);
    }
    if (rank != 0) work_index = take();
    for (; work_index < backward_work_items(args); work_index = take()) hand_on(work_index);
    hand_on(work_index);
  }

 private:
  __device__ __forceinline__ unsigned take() const {
    return same_for_warp(lane == 0 ? take_work_index(args.work_counter) : 0u);
  }

  __device__ __forceinline__ unsigned take_work_together() {
    unsigned work_index = 0;
    const int at = work_items.stage();
    if (lane == 0) {
      if (rank == 0) {
        work_index = take_work_index(args.work_counter);
        wait_for_cluster(memory.mail_free(at), work_items.parity() ^ 1);
        store_shared_of(memory.mail(at), 1, work_index);
        release_at(memory.mail_full(at), 1);
      } else {
        wait_for_cluster(memory.mail_full(at), work_items.parity());
        work_index = load_shared(memory.mail(at));
        release_at(memory.mail_free(at), 0);
      }
    }
    return same_for_warp(work_index);
  }

  __device__ __forceinline__ void hand_on(unsigned work_index) {
    memory.work_free(work_items.stage()).wait(work_items.parity() ^ 1);
    if (lane == 0) {
      store_shared(memory.work_index(work_items.stage()), work_index);
      memory.work_full(work_items.stage()).arrive();
    }
    ++work_items.n;
  }

  __device__ __forceinline__ void load(const Work& work) {
    const int first_head = work.head * args.params.group;
    int head = first_head, tile = work.begin;
    load_q(work, head, tile);
    memory.keys_free().wait((keys_loaded.n++ & 1) ^ 1);
    const int row = static_cast<int>(work.sequence.k_begin) + work.first_key + static_cast<int>(rank) * kKeys;
    const int other = static_cast<int>(work.sequence.k_begin) + work.first_key + static_cast<int>(rank ^ 1) * kKeys;
    if (lane == 0) copy_tile<kKeys, kD>(memory.k(), args.k_map, row, work.head, batch(work), memory.k_full());
    load_d_o(work, head, tile);
    if (lane == 0) {
#pragma unroll
      for (int c = 0; c < kD; c += 64) {
        copy_box(memory.v() + c / 64 * kSlabBytes<kKeys>, args.v_map, c, row, work.head, batch(work), memory.v_full());
      }
#pragma unroll
      for (int c = 0; c < kD / 2; c += 64) {
        copy_box(memory.k_other() + c / 64 * kSlabBytes<kKeys>, args.k_map, static_cast<int>(rank) * (kD / 2) + c,
                 other, work.head, batch(work), memory.v_full());
      }
      memory.v_full().arrive_expecting(Memory::kTileBytes * 3 / 2);
    }
    for (;;) {
      if (++tile == work.end) {
        tile = work.begin;
        if (++head == first_head + args.params.group) return;
      }
      load_q(work, head, tile);
      load_d_o(work, head, tile);
    }
  }

  __device__ __forceinline__ int batch(const Work& work) const { return args.params.packed ? 0 : work.b; }

  __device__ __forceinline__ void load_rows(const Work& work, const CUtensorMap& map, int head, int tile,
                                            std::uint32_t to, Barrier full) const {
    const int row = static_cast<int>(work.sequence.q_begin) + tile * kRows;
    if (lane != 0) return;
#pragma unroll
    for (int c = 0; c < kD / 2; c += 64) {
      const int column = static_cast<int>(rank) * (kD / 2) + c;
      copy_box_to_ranks(to + static_cast<std::uint32_t>(column / 64) * kSlabBytes<kRows>, map, column, row, head,
                        batch(work), full, 3);
    }
    full.arrive_expecting(Memory::kTileBytes);
  }

  __device__ __forceinline__ void load_q(const Work& work, int head, int tile) {
    const int stage = tiles_loaded.stage();
    const Barrier full = memory.q_full(stage);
    memory.q_free(stage).wait(tiles_loaded.parity() ^ 1);
    const std::int64_t index = row_tile_index(args, work.sequence, work.b, head, tile, kRows);
    const uint4 chunk = reinterpret_cast<const uint4*>(args.row_facts + index * (2 * kRows))[lane];
    load_rows(work, args.q_map, head, tile, memory.q(stage), full);
    const std::uint32_t words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
    store_shared(memory.lse(stage) + static_cast<std::uint32_t>(lane) * 16, words);
    full.arrive();
  }

  __device__ __forceinline__ void load_d_o(const Work& work, int head, int tile) {
    memory.d_o_free().wait((tiles_loaded.n & 1) ^ 1);
    load_rows(work, args.d_o_map, head, tile, memory.d_o(), memory.d_o_full());
    ++tiles_loaded.n;
  }
};

// One of the two consumer warpgroups of a block. A warpgroup computes the scores of half of the rows of a tile, half of
// the columns of dK and dV, and a quarter of the columns of dQ.
template <class T, class Args>
struct PairConsumer {
  using Memory = PairMemory;
  static constexpr int kRows = Memory::kRows, kKeys = Memory::kKeys, kD = Memory::kD;
  static constexpr int kScoreRows = kRows / 2, kColumns = kD / 2, kDqColumns = kD / 4;
  using Work = BackwardWork<kRows, 2 * kKeys>;

  const Args& args;
  const Memory& memory;
  const int consumer;
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const unsigned rank = cluster_rank();
  const int score_row = consumer * kScoreRows, column = consumer * kColumns;
  const bool elected = thread == 0;               // the elected thread arrives for its warpgroup
  Count work_items{}, tiles_done{}, keys_done{};  // tiles_done: row tiles; selects the buffers of Q, P and dS

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
    memory.work_full(work_items.stage()).wait(work_items.parity());
    const unsigned work_index = same_for_warp(load_shared(memory.work_index(work_items.stage())));
    memory.work_free(work_items.stage()).arrive();
    ++work_items.n;
    return work_index;
  }

  __device__ __forceinline__ void sync_consumers() const { barrier_sync(1, 256); }
  __device__ __forceinline__ int consumer_thread() const { return consumer * 128 + thread; }
  __device__ __forceinline__ int first_key(const Work& work) const {
    return work.first_key + static_cast<int>(rank) * kKeys;
  }

  __device__ __forceinline__ void add_keys(const Work& work) {
    if (work.keys_written > 0) {
      float dk[kColumns / 2], dv[kColumns / 2];
#pragma unroll
      for (int i = 0; i < kColumns / 2; ++i) dk[i] = dv[i] = 0;
      if (work.begin < work.end) walk(work, dk, dv);
      store(work, dk, dv);
    }
    sync_consumers();
    if (consumer_thread() == 0) count_up(keys_done_of(args, work.b, work.head));
  }

  __device__ __forceinline__ void round(const RowTile& place) const {
    if (consumer_thread() == 0) {
      await_count(keys_done_of(args, place.b, place.head / args.params.group),
                  2 * static_cast<std::uint32_t>(args.key_tiles));
    }
    sync_consumers();
    round_dq<T, kD, kRows>(args, place, args.params.scale * dropout_scale_of(args), consumer_thread());
  }

  __device__ __forceinline__ void clear_ends(const Work& work) const {
    const SequenceParams& p = args.params;
    if (!p.packed && !p.lengths_k.data) return;
    const int left = max(0, work.sequence.seqlen_k - first_key(work));
    const int others_left = max(0, work.sequence.seqlen_k - work.first_key - static_cast<int>(rank ^ 1) * kKeys);
    if (left < kKeys) {
      clear_rows_from<kKeys, kD, 2>(memory.k(), left, consumer_thread());
      clear_rows_from<kKeys, kD, 2>(memory.v(), left, consumer_thread());
    }
    if (others_left < kKeys) clear_rows_from<kKeys, kD / 2, 2>(memory.k_other(), others_left, consumer_thread());
  }

  // Issues the dQ matmuls of the previous row tile.
  __device__ __forceinline__ void start_dq(float (&dq)[kDqColumns / 2]) const {
    const Count before{tiles_done.n - 1};
    const int buffer = before.stage();
    memory.others_full(buffer).wait(before.parity());
    wgmma_begin();
    mma_tn<T, kDqColumns, kKeys>(dq, memory.gradients(buffer),
                                 memory.k() + (2 * rank + static_cast<unsigned>(consumer)) * kSlabBytes<kKeys>, false);
    mma_tn<T, kDqColumns, kKeys>(dq, memory.others(buffer),
                                 memory.k_other() + static_cast<unsigned>(consumer) * kSlabBytes<kKeys>, true);
    wgmma_commit();
  }

  // Called after the dQ matmuls of a row tile: releases the dS of both blocks and adds dQ to global memory.
  __device__ __forceinline__ void finish_dq(const float (&dq)[kDqColumns / 2], int buffer,
                                            std::uint32_t tile_index) const {
    if (elected) {
      memory.gradients_free(buffer).arrive();
      arrive_at(memory.gradients_free(buffer), rank ^ 1);
    }
    float* const sum = args.dq_sum + std::int64_t{tile_index} * (kRows * kD) + rank * (kRows * kD / 2) +
                       (consumer * (kDqColumns / 8) * 128 + thread) * 4;
#pragma unroll
    for (int i = 0; i < kDqColumns / 8; ++i) {
      const float four[4] = {dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]};
      reduce_add(sum + i * (128 * 4), four);
    }
  }

  __device__ __forceinline__ void release_q(int stage) const {
    memory.q_free(stage).arrive();
    if (elected) arrive_at(memory.q_free(stage), rank ^ 1);
  }

  __device__ __forceinline__ void walk(const Work& work, float (&dk)[kColumns / 2], float (&dv)[kColumns / 2]) {
    const SequenceParams& p = args.params;
    const Sequence& sequence = work.sequence;
    const float factor = p.scale * kLog2E;
    memory.k_full().wait(keys_done.n & 1);
    memory.v_full().wait(keys_done.n & 1);
    ++keys_done.n;
    clear_ends(work);
    const bool rows_end = p.packed || p.lengths_q.data;
    const std::uint32_t own_rows = static_cast<std::uint32_t>(score_row) * 128;
    const std::uint32_t own_columns = static_cast<std::uint32_t>(column / 64) * kSlabBytes<kRows>;
    const int own_key = first_key(work);

    std::uint32_t* added = nullptr;  // `deterministic`: semaphore of the row tile added last, to be incremented
    constexpr std::uint32_t kNone = ~0u;
    std::uint32_t index_before = kNone;  // index of the row tile whose dQ is not yet added
    std::uint32_t add_index_before = 0;
    float dq[kDqColumns / 2];
#pragma unroll
    for (int i = 0; i < kDqColumns / 2; ++i) dq[i] = 0;
    const auto add_before = [&](int buffer) {
      if (args.dq_semaphore) {
        added = args.dq_semaphore + index_before;
        while (static_cast<int>(watch(added) - 2 * add_index_before) < 0) {
        }
      }
      finish_dq(dq, buffer, index_before);
    };

    int head = work.head * p.group, tile = work.begin;
    for (int left = p.group * (work.end - work.begin); left > 0; --left) {
      const int stage = tiles_done.stage(), first_row = tile * kRows;
      const std::uint32_t parity = tiles_done.parity(), d_o_parity = tiles_done.n & 1;
      float s[kScoreRows / 2], d[kScoreRows / 2];
      memory.q_full(stage).wait(parity);
      if (const int rows_left = sequence.seqlen_q - first_row; rows_end && rows_left < kRows) {
        memory.d_o_full().wait(d_o_parity);
        clear_rows_from<kRows, kD, 2>(memory.q(stage), rows_left, consumer_thread(), 1);
        clear_rows_from<kRows, kD, 2>(memory.d_o(), rows_left, consumer_thread(), 1);
      }
      wgmma_begin();
      mma_nt<T, kScoreRows, kD, kKeys, kRows>(s, memory.k(), memory.q(stage) + own_rows, false);
      wgmma_commit();
      if (index_before != kNone) {
        start_dq(dq);
      } else {
        wgmma_begin();
        wgmma_commit();  // an empty group, so that the waits below always count the same number of groups
      }
      memory.d_o_full().wait(d_o_parity);
      wgmma_begin();
      mma_nt<T, kScoreRows, kD, kKeys, kRows>(d, memory.v(), memory.d_o() + own_rows, false);
      wgmma_commit();
      Dropout<Args, kScoreRows> kept;  // drawn while the matmuls run
      kept.draw(args, work.b, head, first_row + score_row, own_key);
      const int score_first = first_row + score_row, key = own_key + thread / 32 * 16 + lane_index() / 4;
      const auto alibi = alibi_of(args, head, kLog2E, score_first + sequence.offset + lane_index() % 4 * 2 - key);
      wgmma_wait<2>(s, dk);  // dk: of the previous row tile
      if (index_before != kNone) release_q(stage ^ 1);

      std::uint32_t probabilities[kScoreRows / 4], gradients[kScoreRows / 4], capped[kCaps<Args> ? kScoreRows / 4 : 1];
      const std::uint32_t lse = memory.lse(stage) + static_cast<std::uint32_t>(score_row) * 4;
      if constexpr (kCaps<Args>) {
        weigh_capped<T, kScoreRows>(s, lse, args, probabilities, capped);
      } else {
        weigh<kScoreRows>(s, lse, factor, alibi);
      }
      kept.mark(s);  // before the branch on masks, which keeps ptxas from moving it behind the next wait
      const Keys all = sequence.all(first_row, min(first_row + kRows, sequence.seqlen_q) - 1);
      if (own_key < all.lo || own_key + kKeys > all.hi) {
        mask_probabilities<kScoreRows>(sequence, key, score_first, [&](int i) {
          if constexpr (kCaps<Args>) {
            clear_element(probabilities, i);
            clear_element(capped, i);
          } else {
            s[i] = 0;
          }
        });
      }
      if constexpr (!kCaps<Args>) kept.template round<T>(probabilities, s);
      wgmma_wait<0>(d);
      if constexpr (kCaps<Args>) unpack_operand<T>(s, capped);
      take_delta<Dropout<Args, kScoreRows>, kScoreRows>(
          d, s, memory.delta(stage) + static_cast<std::uint32_t>(score_row) * 4);
      round_to_operand<T>(gradients, d);
      memory.gradients_free(stage).wait(parity ^ 1);
      store_operand<kKeys>(memory.probabilities(stage), probabilities, 0, score_row, thread);
      store_operand<kKeys>(memory.gradients(stage), gradients, 0, score_row, thread);
      publish_stores();
      sync_consumers();
      if (consumer_thread() == 0) {
        memory.others_full(stage).arrive_expecting(Memory::kScoreBytes);
        copy_to_rank(memory.others(stage), memory.gradients(stage), Memory::kScoreBytes, memory.others_full(stage),
                     rank ^ 1);
        if (args.dq_semaphore && added) count_up(added);
      }

      wgmma_begin();
      mma_nn<T, kColumns, kRows>(dv, memory.probabilities(stage), memory.d_o() + own_columns, true);
      wgmma_commit();
      mma_nn<T, kColumns, kRows>(dk, memory.gradients(stage), memory.q(stage) + own_columns, true);
      wgmma_commit();
      ++tiles_done.n;
      wgmma_wait<2>(dq);
      if (index_before != kNone) add_before(stage ^ 1);
      index_before = static_cast<std::uint32_t>(row_tile_index(args, sequence, work.b, head, tile, kRows));
      if (args.dq_semaphore) add_index_before = dq_add_index<kRows, 2 * kKeys>(sequence, tile, work.tile);
      if (++tile == work.end) {
        tile = work.begin;
        ++head;
      }
      wgmma_wait<1>(dv);
      if (elected) {
        memory.d_o_free().arrive();
        arrive_at(memory.d_o_free(), rank ^ 1);
      }
    }
    const int last = tiles_done.stage() ^ 1;
    start_dq(dq);
    wgmma_wait<1>(dk);
    release_q(last);
    wgmma_wait<0>(dq);
    if (elected) memory.keys_free().arrive();
    std::uint32_t* const added_before = added;
    add_before(last);
    if (args.dq_semaphore) {
      sync_consumers();
      if (consumer_thread() == 0) {
        if (added_before) count_up(added_before);
        count_up(added);
      }
    }
  }

  // Stores dK and dV; keys past the sequence length get zeros.
  __device__ __forceinline__ void store(const Work& work, float (&dk)[kColumns / 2], float (&dv)[kColumns / 2]) const {
    const SequenceParams& p = args.params;
    const int row = thread / 32 * 16 + lane_index() / 4;  // and row + 8
    const int own_key = first_key(work), written = work.keys_written - static_cast<int>(rank) * kKeys;
    const float dv_scale = dropout_scale_of(args), dk_scale = p.scale * dv_scale;
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
      const bool valid = own_key + row + i / 2 % 2 * 8 < work.sequence.seqlen_k;
      dk[i] = valid ? dk[i] * dk_scale : 0;
      dv[i] = valid ? dv[i] * dv_scale : 0;
    }
    const auto rows_to = [&](const Tensor& tensor) {
      return static_cast<std::uint16_t*>(tensor.data) +
             head_offset(tensor, work.b, work.head, work.sequence.k_begin + own_key) + column;
    };
    store_two_rows<T, kColumns>(dk, rows_to(args.dk), args.dk.row, p.d - column, row, written);
    store_two_rows<T, kColumns>(dv, rows_to(args.dv), args.dv.row, p.dv_dim - column, row, written);
  }
};

// For older architectures the kernel has an empty body, and ptxas rejects the cluster attribute.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define STROBE_CLUSTER_OF_TWO __cluster_dims__(2, 1, 1)
#else
#define STROBE_CLUSTER_OF_TWO
#endif

template <class T, class Args>
__global__ void STROBE_CLUSTER_OF_TWO __launch_bounds__(kBackwardThreads, 1)
    pair_kernel(const __grid_constant__ Args args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const PairMemory memory;
  if (threadIdx.x == 0) {
    prefetch_map(args.q_map);
    prefetch_map(args.k_map);
    prefetch_map(args.d_o_map);
    prefetch_map(args.v_map);
    memory.begin_barriers();
  }
  prepare_rows<T, kPairDim, kPairShape.rows>(args);
  cluster_sync();  // before any arrival at the other block's barriers
  const int warpgroup = same_for_warp(static_cast<int>(threadIdx.x) / 128);
  if (warpgroup == 0) {
    warpgroup_reg_dealloc<kPairProducerRegisters>();
    if (same_for_warp(static_cast<int>(threadIdx.x) / 32) != 0) return;
    PairLoader{args, memory}.run();
  } else {
    warpgroup_reg_alloc<kPairConsumerRegisters>();
    PairConsumer<T, Args>{args, memory, warpgroup - 1}.run();
  }
  cluster_sync();  // no block exits while the other may still access its shared memory
#endif
}

#undef STROBE_CLUSTER_OF_TWO

}  // namespace strobe::cuda::sm90
