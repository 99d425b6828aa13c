// Which weights dropout keeps, drawn a tile at a time.
#pragma once

#include "attention/cuda/device/philox.cuh"

namespace strobe::cuda {

// A bit for each of a lane's weights, in rows 16 m and 16 m + 8 and keys 8 n and 8 n + 1 from its first.
template <int kMt, int kNt>
struct Kept {
  std::uint32_t bits[kMt] = {};  // bit 4 n + e
  __device__ __forceinline__ bool at(int m, int n, int e) const { return bits[m] >> (4 * n + e) & 1; }
};

// Ahead of the scores, while their registers are free. A loop that is not unrolled has as many words in flight as there
// are rows, twice: left alone, the compiler saves registers and lets few products overlap.
template <int kMt, int kNt>
__device__ __forceinline__ void draw(Kept<kMt, kNt>& kept, const Philox& philox, std::uint32_t threshold,
                                     const Philox::Row (&rows)[2 * kMt], int column) {
  static_assert(kNt <= 8);
#pragma unroll 1
  for (int n = kNt - 1; n >= 0; --n) {
    const Philox::Key keys[2] = {philox.key(column + n * 8), philox.key(column + n * 8 + 1)};
    std::uint32_t words[2 * kMt][2];
    philox.words(words, rows, keys);
#pragma unroll
    for (int m = 0; m < kMt; ++m) {
      std::uint32_t four = 0;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (words[2 * m + e / 2][e % 2] >= threshold) four |= 1u << e;
      }
      kept.bits[m] = kept.bits[m] << 4 | four;
    }
  }
}

}  // namespace strobe::cuda
