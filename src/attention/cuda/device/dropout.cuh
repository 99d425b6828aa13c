// Philox random words for dropout, and the keep bits of a tile of probabilities. Used by all CUDA kernels that support
// dropout.
#pragma once

#include <cstdint>

namespace strobe::cuda {

// First word of Philox4x32-10 for the counter (b, h, i, j); identical to core/philox.h. Rounds that depend only on the
// row or only on the key are computed once per row or key, the other seven per pair. The kernel parameters contain the
// round keys.
struct Philox {
  static constexpr std::uint32_t kM0 = 0xD2511F53u, kM1 = 0xCD9E8D57u;

  struct Row {
    std::uint32_t x0, x1, x3, x4;  // words after the rounds that depend only on the row, with their keys
  };
  struct Key {
    std::uint32_t high, low;
  };

  const std::uint32_t (&round_keys)[10][2];
  std::uint32_t high_b, low_b, h;

  __device__ __forceinline__ Philox(const std::uint32_t (&keys)[10][2], std::uint32_t b, std::uint32_t head)
      : round_keys(keys), h(head) {
    const std::uint64_t product = std::uint64_t{kM0} * b;
    high_b = high(product), low_b = low(product);
  }

  __device__ static __forceinline__ std::uint32_t high(std::uint64_t product) {
    return static_cast<std::uint32_t>(product >> 32);
  }
  __device__ static __forceinline__ std::uint32_t low(std::uint64_t product) {
    return static_cast<std::uint32_t>(product);
  }

  __device__ __forceinline__ Row row(int i) const {
    const std::uint64_t first = std::uint64_t{kM1} * static_cast<std::uint32_t>(i);
    const std::uint64_t second = std::uint64_t{kM0} * (high(first) ^ h ^ round_keys[0][0]);
    const std::uint64_t third = std::uint64_t{kM1} * (high(second) ^ low_b ^ round_keys[1][1]);
    return {high(third) ^ round_keys[2][0], low(first) ^ round_keys[1][0], low(second) ^ round_keys[2][1], low(third)};
  }

  // Computes row() for the rows i, i + 8, i + 16, ...
  template <int kRows>
  __device__ __forceinline__ void rows(Row (&out)[kRows], int i) const {
#pragma unroll
    for (int r = 0; r < kRows; ++r) out[r] = row(i + r * 8);
  }

  __device__ __forceinline__ Key key(int j) const {
    const std::uint64_t product = std::uint64_t{kM1} * (high_b ^ static_cast<std::uint32_t>(j) ^ round_keys[0][1]);
    return {high(product), low(product)};
  }

  // Computes the words of several rows and keys round by round. A single word is one chain of dependent
  // multiplications; several give instruction-level parallelism.
  template <int kRows, int kKeys>
  __device__ __forceinline__ void words(std::uint32_t (&out)[kRows][kKeys], const Row (&rows)[kRows],
                                        const Key (&keys)[kKeys]) const {
    std::uint32_t c[kRows][kKeys][4];
    const auto for_all = [](auto&& pair) {
#pragma unroll
      for (int k = 0; k < kKeys; ++k) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) pair(r, k);
      }
    };
    for_all([&](int r, int k) {
      const std::uint64_t third = std::uint64_t{kM0} * (keys[k].high ^ rows[r].x1);
      c[r][k][0] = keys[k].low ^ rows[r].x0, c[r][k][1] = rows[r].x4;
      c[r][k][2] = high(third) ^ rows[r].x3, c[r][k][3] = low(third);
    });
#pragma unroll
    for (int round = 3; round < 10; ++round) {
      for_all([&](int r, int k) {
        std::uint32_t(&x)[4] = c[r][k];
        const std::uint64_t product0 = std::uint64_t{kM0} * x[0], product1 = std::uint64_t{kM1} * x[2];
        x[0] = high(product1) ^ x[1] ^ round_keys[round][0];
        x[1] = low(product1);
        x[2] = high(product0) ^ x[3] ^ round_keys[round][1];
        x[3] = low(product0);
      });
    }
    for_all([&](int r, int k) { out[r][k] = c[r][k][0]; });
  }

  __device__ __forceinline__ std::uint32_t word(const Row& row, const Key& key) const {
    const Row rows[1] = {row};
    const Key keys[1] = {key};
    std::uint32_t out[1][1];
    words(out, rows, keys);
    return out[0][0];
  }
};

// Dropout keep bits of a lane's probabilities. They are for rows 16 m and 16 m + 8 and keys 8 n and 8 n + 1, relative
// to the lane's first row and key.
template <int kMt, int kNt>
struct Kept {
  std::uint32_t bits[kMt] = {};  // bit 4 n + e
  __device__ __forceinline__ bool at(int m, int n, int e) const { return bits[m] >> (4 * n + e) & 1; }
};

// Draws the keep bits before the scores exist, while their registers are free. The loop is not unrolled and computes
// two keys of each row per iteration. If it is unrolled, the compiler saves registers and overlaps few multiplications.
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
