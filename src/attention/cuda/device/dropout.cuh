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

// Clears the elements of a pair of 16-bit probabilities that dropout drops. word: the pair's random bits.
__device__ __forceinline__ void drop_pair(std::uint32_t& pair, std::uint32_t word, std::uint32_t threshold) {
  if (word << 16 < threshold) pair &= 0xffff0000u;
  if (word < threshold) pair &= 0xffffu;
}

}  // namespace strobe::cuda
