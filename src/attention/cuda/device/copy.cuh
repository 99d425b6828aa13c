// Rows of the caller's tensors to tiles in shared memory and back. Rows and columns beyond the tensor arrive as zeros
// and are never written.
#pragma once

#include "attention/cuda/device/tile.cuh"

namespace strobe::cuda {

// One head of one sequence: row i, column c at data[i * row + c * column].
struct Rows16 {
  std::uint16_t* data;
  std::int64_t row;
  int column;    // 1; 0 for an expanded dO
  int columns;   // D or Dv
  bool vectors;  // every row begins at a multiple of 16 bytes, is a whole number of them, and column is 1
};

// Threads walk a tile by lanes of chunks side by side: the largest power of two that divides the chunks of a row.
template <int kColumns>
inline constexpr int kChunkLanes = (kColumns / 8) & -(kColumns / 8);

// Eight elements through registers, for rows that vectors cannot take.
__device__ __forceinline__ void copy_elements_8(std::uint32_t to, const std::uint16_t* from, int column, int valid) {
  std::uint32_t words[4] = {0, 0, 0, 0};
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    if (e < valid) words[e / 2] |= static_cast<std::uint32_t>(from[e * column]) << (e % 2 * 16);
  }
  store_shared(to, words);
}

// Asynchronous where the rows allow vectors; kAnyRows: where they may not, elements go through registers and are seen
// after the next block_sync() like the others. place(row) is the offset of a row in elements.
template <int kRows, int kColumns, int kThreads, bool kAnyRows, class Place>
__device__ __forceinline__ void load_tile(std::uint32_t tile, const Rows16& from, int valid_rows, Place&& place) {
  using Shape = Tile<kColumns>;
  constexpr int kLanes = kChunkLanes<kColumns>;
  constexpr int kRowStep = kThreads / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int first = static_cast<int>(threadIdx.x) / kLanes;
#pragma unroll
  for (int i = 0; i < (kRows + kRowStep - 1) / kRowStep; ++i) {
    const int row = first + i * kRowStep;
    if (kRows % kRowStep != 0 && row >= kRows) break;
    const bool valid = row < valid_rows;
    const std::uint16_t* source = from.data + (valid ? place(row) : 0);
#pragma unroll
    for (int c = 0; c < Shape::kChunks / kLanes; ++c) {
      const int chunk = lane + c * kLanes;
      const std::uint32_t to = tile + Shape::offset(row, chunk);
      if (!kAnyRows || from.vectors) {
        copy_async_16(to, source + chunk * 8, valid && chunk * 8 < from.columns ? 16 : 0);
      } else {
        copy_elements_8(to, source + chunk * 8 * from.column, from.column, valid ? from.columns - chunk * 8 : 0);
      }
    }
  }
}

// A walk through consecutive tiles of rows: this thread's first chunk of the next tile, and steps. Little is kept in
// registers between the tiles, which the loop over them has none of to spare.
template <int kRows, int kColumns, int kThreads, bool kAnyRows>
struct TileWalk {
  using Shape = Tile<kColumns>;
  static constexpr int kLanes = kChunkLanes<kColumns>;
  static constexpr int kRowStep = kThreads / kLanes;
  static_assert(kRows % kRowStep == 0);

  const std::uint16_t* source;
  std::int64_t row;  // elements
  int column, columns;
  bool vectors;

  // At the tile that begins with row `first`.
  __device__ __forceinline__ TileWalk(const Rows16& from, int first)
      : row(from.row), column(from.column), columns(from.columns), vectors(from.vectors) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    source = from.data + (first + static_cast<int>(threadIdx.x) / kLanes) * row + lane * 8 * column;
  }

  __device__ __forceinline__ void move(int tiles) { source += tiles * kRows * row; }

  // valid_rows: of this tile.
  __device__ __forceinline__ void load(std::uint32_t tile, int valid_rows) const {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    const int first = static_cast<int>(threadIdx.x) / kLanes;
    const std::uint16_t* from = source;
#pragma unroll
    for (int i = 0; i < kRows / kRowStep; ++i) {
      const bool valid = first + i * kRowStep < valid_rows;
#pragma unroll
      for (int c = 0; c < Shape::kChunks / kLanes; ++c) {
        const int chunk = lane + c * kLanes;
        const std::uint32_t to = tile + Shape::offset(first + i * kRowStep, chunk);
        if (!kAnyRows || vectors) {
          copy_async_16(to, from + c * kLanes * 8, valid && chunk * 8 < columns ? 16 : 0);
        } else {
          copy_elements_8(to, from + c * kLanes * 8 * column, column, valid ? columns - chunk * 8 : 0);
        }
      }
      from += kRowStep * row;
    }
  }
};

// A tile to rows of the caller's tensor, by `kThreads` threads of which this one is `thread`. The tile is complete.
template <int kRows, int kColumns, int kThreads, bool kAnyRows, class Place>
__device__ __forceinline__ void store_tile(const Rows16& to, std::uint32_t tile, int thread, int valid_rows,
                                           Place&& place) {
  using Shape = Tile<kColumns>;
  constexpr int kLanes = kChunkLanes<kColumns>;
  constexpr int kRowStep = kThreads / kLanes;
  const int lane = thread % kLanes;
#pragma unroll
  for (int i = 0; i < (kRows + kRowStep - 1) / kRowStep; ++i) {
    const int row = thread / kLanes + i * kRowStep;
    if (row >= valid_rows || (kRows % kRowStep != 0 && row >= kRows)) break;
    std::uint16_t* target = to.data + place(row);
#pragma unroll
    for (int c = 0; c < Shape::kChunks / kLanes; ++c) {
      const int chunk = lane + c * kLanes;
      if (chunk * 8 >= to.columns) break;
      std::uint32_t words[4];
      load_shared(words, tile + Shape::offset(row, chunk));
      if (!kAnyRows || to.vectors) {
        *reinterpret_cast<uint4*>(target + chunk * 8) = make_uint4(words[0], words[1], words[2], words[3]);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          if (chunk * 8 + e < to.columns) {
            target[chunk * 8 + e] = static_cast<std::uint16_t>(words[e / 2] >> (e % 2 * 16));
          }
        }
      }
    }
  }
}

}  // namespace strobe::cuda
