// Dropout on a GPU: random words of accumulator fragments, in the arrangement of core/philox.h.
#pragma once

#include <cstdint>

namespace strobe::cuda {

// Philox4x32-10 for one (sequence, query head). The kernel parameters contain the round keys.
struct Philox {
  const std::uint32_t (&round_keys)[10][2];
  std::uint32_t b, head;

  __device__ __forceinline__ Philox(const std::uint32_t (&keys)[10][2], int batch, int query_head)
      : round_keys(keys), b(static_cast<std::uint32_t>(batch)), head(static_cast<std::uint32_t>(query_head)) {}

  // Stores the four words of the Philox call that serves score (i, j). Let row r be i without bit 3, and key k be j
  // without bits 0 and 3. Words 0 and 1 are for keys k and k + 1, in row r and in row r + 8. Words 2 and 3 are for keys
  // k + 8 and k + 9 in the same two rows. The lower half of a word is for the even key.
  __device__ __forceinline__ void words(std::uint32_t* x, int i, int j) const {
    x[0] = b, x[1] = head;
    x[2] = static_cast<std::uint32_t>((i >> 4) * 8 + (i & 7)),
    x[3] = static_cast<std::uint32_t>((j >> 4) * 4 + (j & 7) / 2);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * x[0], product1 = std::uint64_t{0xCD9E8D57u} * x[2];
      x[0] = static_cast<std::uint32_t>(product1 >> 32) ^ x[1] ^ round_keys[round][0];
      x[1] = static_cast<std::uint32_t>(product1);
      x[2] = static_cast<std::uint32_t>(product0 >> 32) ^ x[3] ^ round_keys[round][1];
      x[3] = static_cast<std::uint32_t>(product0);
    }
  }

  // Returns true if dropout keeps score (i, j). For kernels whose threads do not own fragments, because it computes a
  // whole Philox call for one score.
  __device__ __forceinline__ bool keeps(int i, int j, std::uint32_t threshold) const {
    std::uint32_t x[4];
    words(x, i, j);
    const std::uint32_t row[2] = {i & 8 ? x[1] : x[0], i & 8 ? x[3] : x[2]}, word = j & 8 ? row[1] : row[0];
    return (j % 2 == 0 ? word << 16 : word) >= threshold;
  }
};

// Compares both halves of a random word with the dropout threshold.
struct KeepsPair {
  std::uint32_t low_bits;      // the lower 15 bits of the threshold, in both halves
  std::uint32_t any_suffices;  // all ones if the top bit of the threshold is 0, otherwise 0

  __device__ __forceinline__ explicit KeepsPair(std::uint32_t threshold)
      : low_bits((threshold & 0x7fff0000u) | (threshold >> 16 & 0x7fffu)),
        any_suffices(static_cast<std::int32_t>(threshold) < 0 ? 0 : ~0u) {}

  // Returns 0x8000 in each half that dropout keeps, otherwise 0. The subtraction never borrows from the other half.
  __device__ __forceinline__ std::uint32_t of(std::uint32_t word) const {
    const std::uint32_t low_keeps = (word | 0x80008000u) - low_bits;  // in the top bit of each half
    return ((word & low_keeps) | (any_suffices & (word | low_keeps))) & 0x80008000u;
  }
};

// Returns 0xffff in each half whose top bit is set, otherwise 0.
__device__ __forceinline__ std::uint32_t spread_signs(std::uint32_t word) {
#ifdef __CUDA_ARCH__
  std::uint32_t mask;
  asm("prmt.b32 %0, %1, 0, 0xbb99;" : "=r"(mask) : "r"(word));
  return mask;
#else
  return (word & 0x8000u ? 0xffffu : 0) | (word & 0x80000000u ? 0xffff0000u : 0);
#endif
}

// Direction in which the squares of kept_blocks() follow each other.
enum class Along { rows, keys };

// Kept scores of up to four squares of 16 x 16, one bit each. A square has four 8x8 blocks. Along keys, the blocks are
// in the order of the words of Philox::words(). Along rows, for transposed scores, they are rows 0 to 7 with keys 0 to
// 7, the same rows with keys 8 to 15, then rows 8 to 15 with both. A lane of a fragment has two adjacent keys of one
// row of each block: the even key's bit is in the lower half of the result, the odd key's in the upper half.
// Transposing the result as one 8x8 matrix of 16-bit elements transposes all blocks. row, key: the lane's first row and
// key.
template <Along kAlong, int kSquares>
__device__ __forceinline__ std::uint32_t kept_blocks(const Philox& philox, KeepsPair keeps, int row, int key) {
  static_assert(kSquares >= 1 && kSquares <= 4);
  constexpr bool kRows = kAlong == Along::rows;
  std::uint32_t kept = 0;
#pragma unroll 1
  for (int square = 0; square < kSquares; ++square) {  // unrolled, the calls would need too many registers
    std::uint32_t words[4];
    philox.words(words, row + (kRows ? square * 16 : 0), key + (kRows ? 0 : square * 16));
#pragma unroll
    for (int block = 0; block < 4; ++block) {
      kept = kept >> 1 | keeps.of(words[kRows ? block / 2 + block % 2 * 2 : block]);
    }
  }
  return kept;
}

// Shifts the bit of a block in kept_blocks<kSquares>() to bit 31. upper: from the upper half.
template <int kSquares>
__device__ __forceinline__ std::uint32_t kept_to_sign(std::uint32_t kept, int block, bool upper) {
  return kept << (4 * kSquares - 1 - block + (upper ? 0 : 16));
}

// Clears the elements of a pair of 16-bit probabilities that dropout drops. kept: kept_blocks<kSquares>().
template <int kSquares>
__device__ __forceinline__ void drop_pair_of_block(std::uint32_t& pair, std::uint32_t kept, int block) {
  pair &= spread_signs(kept_to_sign<kSquares>(kept, block, true));
}

// Clears the elements of a pair of 16-bit probabilities that dropout drops. word: the pair's random bits.
__device__ __forceinline__ void drop_pair(std::uint32_t& pair, std::uint32_t word, std::uint32_t threshold) {
  if (word << 16 < threshold) pair &= 0xffff0000u;
  if (word < threshold) pair &= 0xffffu;
}

}  // namespace strobe::cuda
