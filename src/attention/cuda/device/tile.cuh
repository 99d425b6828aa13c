// Tiles of 16-bit elements in shared memory, and matmuls of tiles with mma.sync, for the sm80 kernels. Tiles are
// swizzled so that ldmatrix and stores have no bank conflicts.
#pragma once

#include "attention/cuda/device/element.cuh"

namespace strobe::cuda {

inline constexpr int kWarpLanes = 32;

__device__ __forceinline__ int lane_index() { return static_cast<int>(threadIdx.x) % kWarpLanes; }
__device__ __forceinline__ int warp_index() { return static_cast<int>(threadIdx.x) / kWarpLanes; }

// Layout of a tile: rows of kColumns elements, in chunks of 16 bytes. If a row is whole 128-byte lines, the swizzle
// XORs the chunk index with row % 8. Otherwise a row is an odd number of 64-byte half lines, and the swizzle XORs the
// chunk index with row / 2 % 4.
template <int kColumns>
struct Tile {
  static_assert(kColumns % 32 == 0);
  static constexpr int kRowBytes = kColumns * 2;
  static constexpr int kChunks = kColumns / 8;
  static constexpr bool kWholeLines = kRowBytes % 128 == 0;
  static constexpr int kLineMask = kWholeLines ? 127 : 63;

  __device__ static __forceinline__ int swizzle(int row) { return kWholeLines ? row & 7 : (row >> 1) & 3; }

  // Byte offset of a chunk.
  __device__ static __forceinline__ std::uint32_t offset(int row, int chunk) {
    return static_cast<std::uint32_t>(row * kRowBytes + (chunk ^ swizzle(row)) * 16);
  }
};

// Order in which lanes address the four 8x8 matrices of a 16x16 square: first down, or first across.
enum class Walk { down, across };

// One lane's ldmatrix addresses in a tile from a start row and column, both multiples of 16. at(r, c) is the address
// for the square r * 16 rows below and c * 16 columns to the right. kApart: the start column and the column steps have
// no bit in common, so a step to the right is one XOR.
template <int kColumns, Walk kWalk, bool kApart>
struct LaneTile {
  using Shape = Tile<kColumns>;
  std::uint32_t row_address;  // address of this lane's row; kApart: its address in the first square
  std::uint32_t swizzled;     // 16 * (half of the square ^ swizzle)
  std::uint32_t column;       // byte offset of the start column

  __device__ __forceinline__ LaneTile(std::uint32_t tile, int first_row, int first_column) {
    const int lane = lane_index();
    const int row = kWalk == Walk::down ? lane & 15 : (lane & 7) + ((lane >> 4) << 3);
    const int half = kWalk == Walk::down ? lane >> 4 : (lane >> 3) & 1;
    row_address = tile + static_cast<std::uint32_t>((first_row + row) * Shape::kRowBytes);
    swizzled = static_cast<std::uint32_t>((half ^ Shape::swizzle(row)) * 16);
    column = static_cast<std::uint32_t>(first_column * 2);
    if constexpr (kApart) row_address += column ^ swizzled;
  }

  __device__ __forceinline__ std::uint32_t at(int square_row, int square_column) const {
    const auto down = static_cast<std::uint32_t>(square_row * 16 * Shape::kRowBytes);
    const auto right = static_cast<std::uint32_t>(square_column * 32);
    if constexpr (kApart) {
      constexpr std::uint32_t kLine = Shape::kLineMask;
      return (row_address ^ (right & kLine)) + (right & ~kLine) + down;
    }
    return row_address + ((column + right) ^ swizzled) + down;
  }
};

// Storage of an MMA operand. plain: the left operand as [m, k], the right one as [n, k]; transposed: as [k, m] and [k,
// n]. kTermBytes below is the distance between the planes of a tile.
enum class Stored { plain, transposed };

template <Stored kStored>
__device__ __forceinline__ void load_square(std::uint32_t (&r)[4], std::uint32_t address) {
  if constexpr (kStored == Stored::plain) {
    load_matrices(r, address);
  } else {
    load_matrices_transposed(r, address);
  }
}

template <int kColumns, Stored kStored, bool kApart, int kTermBytes>
struct Left : LaneTile<kColumns, kStored == Stored::plain ? Walk::down : Walk::across, kApart> {
  using LaneTile<kColumns, kStored == Stored::plain ? Walk::down : Walk::across, kApart>::LaneTile;
  __device__ __forceinline__ void load(std::uint32_t (&r)[4], int m, int k, int term) const {
    load_square<kStored>(r, (kStored == Stored::plain ? this->at(m, k) : this->at(k, m)) + term * kTermBytes);
  }
};

template <int kColumns, Stored kStored, bool kApart, int kTermBytes>
struct Right : LaneTile<kColumns, kStored == Stored::plain ? Walk::across : Walk::down, kApart> {
  using LaneTile<kColumns, kStored == Stored::plain ? Walk::across : Walk::down, kApart>::LaneTile;
  __device__ __forceinline__ void load(std::uint32_t (&r)[4], int n, int k, int term) const {
    load_square<kStored>(r, (kStored == Stored::plain ? this->at(n, k) : this->at(k, n)) + term * kTermBytes);
  }
};

// Bytes of a tile of T in shared memory, all planes.
template <class T, int kRows, int kColumns>
inline constexpr int kTileBytes = kRows* kColumns * 2 * kTerms<T>;

// A tile of kRows rows of T as an MMA operand.
template <class T, int kRows, int kColumns, Stored kStored, bool kApart = true>
using LeftOf = Left<kColumns, kStored, kApart, kRows * kColumns * 2>;
template <class T, int kRows, int kColumns, Stored kStored, bool kApart = true>
using RightOf = Right<kColumns, kStored, kApart, kRows * kColumns * 2>;

// Sets the accumulators of a warp to 0. They are [m / 16][n / 8] MMA results of 16x8: lane l has the rows l/4 (values
// 0, 1) and l/4 + 8 (values 2, 3), columns 2 * (l % 4) and the next.
template <int kMt, int kNt>
__device__ __forceinline__ void clear(float (&c)[kMt][kNt][4]) {
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
#pragma unroll
    for (int n = 0; n < kNt; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) c[m][n][e] = 0;
    }
  }
}

// Calls body(m, n, e) for every accumulator.
template <int kMt, int kNt, class Body>
__device__ __forceinline__ void for_each(const float (&)[kMt][kNt][4], Body&& body) {
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
#pragma unroll
    for (int n = 0; n < kNt; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) body(m, n, e);
    }
  }
}

// Calls body(m, n, row, column, four) for every four adjacent values of a row, which the lanes 2t and 2t + 1 assemble
// from their pairs. row and column are relative to this lane's first accumulator of (m, n).
template <int kMt, int kNt, class Body>
__device__ __forceinline__ void for_each_quad(const float (&c)[kMt][kNt][4], Body&& body) {
  const bool odd = lane_index() % 2 == 1;
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
#pragma unroll
    for (int n = 0; n < kNt; ++n) {
      const float(&mine)[4] = c[m][n];
      const float low = shuffle_xor(odd ? mine[0] : mine[2], 1), high = shuffle_xor(odd ? mine[1] : mine[3], 1);
      const float four[4] = {odd ? low : mine[0], odd ? high : mine[1], odd ? mine[2] : low, odd ? mine[3] : high};
      body(m, n, odd ? 8 : 0, odd ? -2 : 0, four);
    }
  }
}

// Initial value of an accumulator.
enum class From { zero, sum };

// Default for unit(m, h, n, k): factor for the MMA of square (m, k) of A and square (n, k) of B, 16x16 each, in the
// upper (h = 0) or lower (h = 1) 8 rows of the result. Only fp32 types use factors.
struct UnitOne {
  __device__ __forceinline__ float operator()(int, int, int, int) const { return 1; }
};

// c [16 kMt x 16] += unit(m, h) * a [16 kMt x 16] b [16 x 16] for one k. c has two halves of 8 columns. From::zero: `=`
// instead of `+=`.
template <class T, int kMt, class Unit>
__device__ __forceinline__ void mma_square(float (*c[kMt])[4], const std::uint32_t (&left)[kMt][kTerms<T>][4],
                                           const std::uint32_t (&right)[kTerms<T>][4], From from, Unit&& unit) {
  if constexpr (!kIsFp32<T>) {
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float(&sum)[4] = c[m][half];
        if (from == From::zero) sum[0] = sum[1] = sum[2] = sum[3] = 0;
        mma<T>(sum, left[m][0], right[0][2 * half], right[0][2 * half + 1]);
      }
    }
  } else {
    // Tensor cores truncate the accumulator towards zero, so a long sum in one would drift. The MMAs of the planes
    // therefore start from zero, smallest terms first, and their result is added with rounding.
    float part[kMt][2][4];
    clear(part);
#pragma unroll
    for (int i = 0; i < kSplitMmas<T>; ++i) {
      const SplitMma terms = split_mma<T>(i);
#pragma unroll
      for (int m = 0; m < kMt; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          mma<typename Element<T>::Term>(part[m][half], left[m][terms.left], right[terms.right][2 * half],
                                         right[terms.right][2 * half + 1]);
        }
      }
    }
    for_each(part, [&](int m, int half, int e) {
      float& sum = c[m][half][e];
      sum = from == From::zero ? part[m][half][e] * unit(m, e / 2) : fmaf(part[m][half][e], unit(m, e / 2), sum);
    });
  }
}

// c += unit * a b, or with From::zero c = unit * a b, summed over kK. kMt counts 16-row blocks, kNt counts 8-column
// blocks.
template <class T, int kK, int kMt, int kNt, class A, class B, class Unit = UnitOne>
__device__ __forceinline__ void mma_tiles(float (&c)[kMt][kNt][4], const A& a, const B& b, From from,
                                          const Unit& unit = {}) {
  static_assert(kNt % 2 == 0 && kK % 16 == 0);
#pragma unroll
  for (int k = 0; k < kK / 16; ++k) {
    std::uint32_t left[kMt][kTerms<T>][4];
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
#pragma unroll
      for (int term = 0; term < kTerms<T>; ++term) a.load(left[m][term], m, k, term);
    }
#pragma unroll
    for (int n = 0; n < kNt / 2; ++n) {
      std::uint32_t right[kTerms<T>][4];
#pragma unroll
      for (int term = 0; term < kTerms<T>; ++term) b.load(right[term], n, k, term);
      float(*square[kMt])[4];
#pragma unroll
      for (int m = 0; m < kMt; ++m) square[m] = &c[m][2 * n];
      mma_square<T, kMt>(square, left, right, k == 0 ? from : From::sum,
                         [&](int m, int h) { return unit(m, h, n, k); });
    }
  }
}

// c += unit * a b for one of many tiles. fp32 sums each tile separately, so that fewer roundings have the magnitude of
// the whole sum.
template <class T, int kK, int kMt, int kNt, class A, class B, class Unit = UnitOne>
__device__ __forceinline__ void add_mma_tiles(float (&c)[kMt][kNt][4], const A& a, const B& b, const Unit& unit = {}) {
  if constexpr (!kIsFp32<T>) {
    mma_tiles<T, kK>(c, a, b, From::sum);
  } else {
    float part[kMt][kNt][4];
    mma_tiles<T, kK>(part, a, b, From::zero, unit);
    for_each(c, [&](int m, int n, int e) { c[m][n][e] += part[m][n][e]; });
  }
}

// A left operand that is already in registers.
template <class T, int kMt, int kKt>
struct LeftRegisters {
  std::uint32_t squares[kMt][kKt][4][kTerms<T>];
  __device__ __forceinline__ void load(std::uint32_t (&r)[4], int m, int k, int term) const {
#pragma unroll
    for (int e = 0; e < 4; ++e) r[e] = squares[m][k][e][term];
  }
};

// Rounds accumulators to T. Accumulators have the register layout of the left operand of the next MMA.
template <class T, int kMt, int kNt>
__device__ __forceinline__ void round_to_left(LeftRegisters<T, kMt, kNt / 2>& left, const float (&c)[kMt][kNt][4]) {
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
#pragma unroll
    for (int k = 0; k < kNt / 2; ++k) {
      split_to_words<T>(left.squares[m][k][0], c[m][2 * k][0], c[m][2 * k][1]);
      split_to_words<T>(left.squares[m][k][1], c[m][2 * k][2], c[m][2 * k][3]);
      split_to_words<T>(left.squares[m][k][2], c[m][2 * k + 1][0], c[m][2 * k + 1][1]);
      split_to_words<T>(left.squares[m][k][3], c[m][2 * k + 1][2], c[m][2 * k + 1][3]);
    }
  }
}

// Writes a warp's accumulators as T into a tile of kRows rows at (row, column), multiples of 16 and 8.
template <class T, int kRows, int kColumns, int kMt, int kNt>
__device__ __forceinline__ void store_accumulators(std::uint32_t tile, int row, int column,
                                                   const float (&c)[kMt][kNt][4]) {
  using Shape = Tile<kColumns>;
  const int lane = lane_index();
  const int lane_row = lane / 4;
#pragma unroll
  for (int m = 0; m < kMt; ++m) {
#pragma unroll
    for (int n = 0; n < kNt; ++n) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const std::uint32_t at = tile + Shape::offset(row + m * 16 + h * 8 + lane_row, column / 8 + n) +
                                 static_cast<std::uint32_t>(lane % 4 * 4);
        std::uint32_t words[kTerms<T>];
        split_to_words<T>(words, c[m][n][2 * h], c[m][n][2 * h + 1]);
#pragma unroll
        for (int term = 0; term < kTerms<T>; ++term) store_shared(at + term * (kRows * kColumns * 2), words[term]);
      }
    }
  }
}

// Transposes 4 x 4 registers over the four lanes of a quad: x[j] of lane q becomes the former x[q] of lane j.
__device__ __forceinline__ void transpose_quad(std::uint32_t (&x)[4]) {
  const int lane = lane_index();
#pragma unroll
  for (int step = 1; step <= 2; step *= 2) {
    const bool upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & step) continue;
      const std::uint32_t got = shuffle_xor(upper ? x[i] : x[i + step], step);
      (upper ? x[i] : x[i + step]) = got;
    }
  }
}

}  // namespace strobe::cuda
