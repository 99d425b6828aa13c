// Copies rows between the caller's tensors and tiles in shared memory. Loads fill rows and columns beyond the tensor
// with zeros; stores skip them. Used by the kernels of sm80 and sm90.
#pragma once

#include <type_traits>

#include "attention/cuda/device/tile.cuh"
#include "attention/cuda/params.h"

namespace strobe::cuda {

// One head of one sequence: row i, column c at data[i * row + c * column].
template <class T>
struct Rows {
  ElementType<T>* data;
  std::int64_t row;
  int column;    // 1; 0 for an expanded dO
  int columns;   // D or Dv
  bool vectors;  // every row is 16-byte aligned and a multiple of 16 bytes long, and column is 1
};

template <class T>
__device__ __forceinline__ Rows<T> rows_at(const Tensor& tensor, std::int64_t offset, int columns) {
  return {static_cast<ElementType<T>*>(tensor.data) + offset, tensor.row, tensor.column, columns, tensor.vectors};
}

// Number of threads that copy one row, each a 16-byte chunk at a time: the largest power of two that divides the chunks
// per row.
template <int kColumns>
inline constexpr int kChunkLanes = (kColumns / 8) & -(kColumns / 8);

// Copies eight elements to one 16-byte chunk of a tile. For 16-bit types take() does the whole copy: with cp.async if
// the rows allow 16-byte vectors, otherwise through registers. For fp32 types take() only loads the elements into
// registers; put() later splits and stores them, so other work can run in between. Elements from index `valid` on
// become zeros. kAnyRows: rows need not allow 16-byte vectors. The chunk is visible to the block after
// copy_async_wait() and block_sync().
template <class T, bool kAnyRows, int kTermBytes>
struct ChunkCopy {
  float held[kIsFp32<T> ? 8 : 1];

  __device__ __forceinline__ void take(std::uint32_t to, const ElementType<T>* from, int column, bool vectors,
                                       int valid) {
    if constexpr (!kIsFp32<T>) {
      if (!kAnyRows || vectors) return copy_async_16(to, from, valid > 0 ? 16 : 0);
      std::uint32_t words[4] = {0, 0, 0, 0};
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (e < valid) words[e / 2] |= static_cast<std::uint32_t>(from[e * column]) << (e % 2 * 16);
      }
      store_shared(to, words);
    } else {
#pragma unroll
      for (int half = 0; half < 8; half += 4) {
        if (vectors) {
          const float4 four = half < valid ? *reinterpret_cast<const float4*>(from + half) : make_float4(0, 0, 0, 0);
          held[half] = four.x, held[half + 1] = four.y, held[half + 2] = four.z, held[half + 3] = four.w;
        } else {
#pragma unroll
          for (int e = half; e < half + 4; ++e) held[e] = e < valid ? from[e * column] : 0;
        }
      }
    }
  }

  // Raises `largest` to the largest magnitude of the chunk. Both types ignore NaN. float takes infinities into account;
  // LargestFinite ignores them.
  template <class Largest>
  __device__ __forceinline__ void measure(Largest& largest) const {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if constexpr (std::is_same_v<Largest, float>) {
        largest = fmaxf(largest, fabsf(held[e]));
      } else {
        largest.take(held[e]);
      }
    }
  }

  // Splits the fp32 elements and stores each term in its plane (element.cuh). up: scale of the row, for scaled types.
  __device__ __forceinline__ void put(std::uint32_t to, float up = 1) const {
    if constexpr (kIsFp32<T>) {
      std::uint32_t words[kTerms<T>][4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        std::uint32_t terms[kTerms<T>];
        split_to_words<T>(terms, held[2 * w] * up, held[2 * w + 1] * up);
#pragma unroll
        for (int term = 0; term < kTerms<T>; ++term) words[term][w] = terms[term];
      }
#pragma unroll
      for (int term = 0; term < kTerms<T>; ++term) store_shared(to + term * kTermBytes, words[term]);
    }
  }
};

// Stores one tile row, whose chunks kLanes neighbouring lanes have in registers. For types with scales (has_scales())
// it scales the row first, and stores the inverse scale at scales[row] in fp32. kShared: other rows depend on this
// scale, so an infinity must not affect it.
template <class T, int kLanes, bool kShared, int kCount, class Chunk, class Address>
__device__ __forceinline__ void put_row(const Chunk (&chunks)[kCount], int row, std::uint32_t scales,
                                        Address&& address) {
  float up = 1;
  if constexpr (kIsScaled<T>) {
    std::conditional_t<kShared, LargestFinite, float> largest{};
#pragma unroll
    for (int c = 0; c < kCount; ++c) chunks[c].measure(largest);
#pragma unroll
    for (int step = 1; step < kLanes; step *= 2) {
      if constexpr (kShared) {
        largest.bits = max(largest.bits, shuffle_xor(largest.bits, step));
      } else {
        largest = fmaxf(largest, shuffle_xor(largest, step));
      }
    }
    const RowScale scale(static_cast<float>(largest));
    up = scale.up;
    if (threadIdx.x % kLanes == 0)
      store_shared(scales + static_cast<std::uint32_t>(row * 4), float_to_bits(scale.down));
  }
#pragma unroll
  for (int c = 0; c < kCount; ++c) chunks[c].put(address(c), up);
}

// Loads a tile; rows from valid_rows on become zeros. place(row): element offset of a row. scales: see put_row().
template <class T, int kRows, int kColumns, int kThreads, bool kAnyRows, class Place>
__device__ __forceinline__ void load_tile(std::uint32_t tile, const Rows<T>& from, int valid_rows, Place&& place,
                                          std::uint32_t scales = 0) {
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
    const ElementType<T>* source = from.data + (valid ? place(row) : 0);
    constexpr int kCount = Shape::kChunks / kLanes;
    ChunkCopy<T, kAnyRows, kRows * kColumns * 2> chunks[kCount];
    const auto address = [&](int c) { return tile + Shape::offset(row, lane + c * kLanes); };
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      const int chunk = lane + c * kLanes;
      chunks[c].take(address(c), source + chunk * 8 * from.column, from.column, from.vectors,
                     valid ? from.columns - chunk * 8 : 0);
    }
    put_row<T, kLanes, false>(chunks, row, scales, address);
  }
}

// Loads consecutive row tiles. Between tiles it keeps only a pointer to this thread's first chunk and the strides,
// because the loop over tiles has no registers to spare.
template <class T, int kRows, int kColumns, int kThreads, bool kAnyRows>
struct TileWalk {
  using Shape = Tile<kColumns>;
  static constexpr int kLanes = kChunkLanes<kColumns>;
  static constexpr int kRowStep = kThreads / kLanes;
  static_assert(kRows % kRowStep == 0);

  const ElementType<T>* source;
  std::int64_t row;  // elements from one row to the next
  int column, columns;
  bool vectors;

  // Starts at the tile whose first row is `first`.
  __device__ __forceinline__ TileWalk(const Rows<T>& from, int first)
      : row(from.row), column(from.column), columns(from.columns), vectors(from.vectors) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    source = from.data + (first + static_cast<int>(threadIdx.x) / kLanes) * row + lane * 8 * column;
  }

  __device__ __forceinline__ void move(int tiles) { source += tiles * kRows * row; }

  // Chunks that this thread has in registers between begin() and end() of a tile.
  static constexpr int kChunkRows = kRows / kRowStep, kChunkColumns = Shape::kChunks / kLanes;
  struct Held {
    ChunkCopy<T, kAnyRows, kRows * kColumns * 2> chunks[kChunkRows][kChunkColumns];
  };

  // Starts loading a tile. Rows before first_valid and from valid_rows on become zeros.
  __device__ __forceinline__ void begin(Held& held, std::uint32_t tile, int valid_rows, int first_valid = 0) const {
    const ElementType<T>* from = source;
#pragma unroll
    for (int i = 0; i < kChunkRows; ++i) {
      const bool valid = row_at(i) >= first_valid && row_at(i) < valid_rows;
#pragma unroll
      for (int c = 0; c < kChunkColumns; ++c) {
        held.chunks[i][c].take(tile + Shape::offset(row_at(i), chunk_at(c)), from + c * kLanes * 8 * column, column,
                               vectors, valid ? columns - chunk_at(c) * 8 : 0);
      }
      from += kRowStep * row;
    }
  }

  // Finishes loading a tile. scales and kShared: see put_row().
  template <bool kShared = false>
  __device__ __forceinline__ void end(const Held& held, std::uint32_t tile, std::uint32_t scales = 0) const {
#pragma unroll
    for (int i = 0; i < kChunkRows; ++i) {
      put_row<T, kLanes, kShared>(held.chunks[i], row_at(i), scales,
                                  [&](int c) { return tile + Shape::offset(row_at(i), chunk_at(c)); });
    }
  }

  __device__ __forceinline__ void load(std::uint32_t tile, int valid_rows, std::uint32_t scales = 0) const {
    Held held;
    begin(held, tile, valid_rows);
    end(held, tile, scales);
  }

 private:
  __device__ static __forceinline__ int row_at(int i) { return static_cast<int>(threadIdx.x) / kLanes + i * kRowStep; }
  __device__ static __forceinline__ int chunk_at(int c) { return static_cast<int>(threadIdx.x) % kLanes + c * kLanes; }
};

// Clears rows [0, rows) of a tile of kRows rows in shared memory. The swizzle keeps chunks within their row.
template <class T, int kRows, int kColumns, int kThreads>
__device__ __forceinline__ void clear_rows(std::uint32_t tile, int rows) {
  const std::uint32_t zeros[4] = {0, 0, 0, 0};
#pragma unroll 1
  for (int chunk = static_cast<int>(threadIdx.x); chunk < rows * Tile<kColumns>::kChunks; chunk += kThreads) {
#pragma unroll
    for (int term = 0; term < kTerms<T>; ++term) {
      store_shared(tile + static_cast<std::uint32_t>(term * kRows * kColumns * 2 + chunk * 16), zeros);
    }
  }
}

// Stores a tile of 16-bit elements to rows of the caller's tensor with `kThreads` threads; `thread` is the index of the
// calling thread. The tile must be complete and visible to all of them.
template <class T, int kRows, int kColumns, int kThreads, bool kAnyRows, class Place>
__device__ __forceinline__ void store_tile(const Rows<T>& to, std::uint32_t tile, int thread, int valid_rows,
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

// Stores a warp's accumulators to rows of an fp32 tensor; (row, column) is their position in the tile.
template <class T, int kMt, int kNt, class Place>
__device__ __forceinline__ void store_rows(const Rows<T>& to, const float (&c)[kMt][kNt][4], int row, int column,
                                           int valid_rows, Place&& place) {
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int r = row + m * 16 + h * 8 + lane_index() / 4;
      if (r >= valid_rows) continue;
      float* target = to.data + place(r);
#pragma unroll
      for (int n = 0; n < kNt; ++n) {
        const int first = column + n * 8 + lane_index() % 4 * 2;
        if (to.vectors && first + 1 < to.columns) {
          *reinterpret_cast<float2*>(target + first) = make_float2(c[m][n][2 * h], c[m][n][2 * h + 1]);
        } else {
          if (first < to.columns) target[first] = c[m][n][2 * h];
          if (first + 1 < to.columns) target[first + 1] = c[m][n][2 * h + 1];
        }
      }
    }
  }
}

}  // namespace strobe::cuda
