// Draws the random words of a tile for dropout, as dropout_word() in core/philox.h does. Used by forward_step.h and
// backward_step.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/cpu/isa.h"
#include "core/simd.h"

namespace strobe::cpu {
namespace {

// The Philox calls of kCount lanes, for one key pair at a time (core/philox.h defines key pairs and squares). kCount
// divides every engine's panel width.
class PhiloxLanes {
 public:
  static constexpr int kCount = kLanes == 4 ? 4 : 8;
  static constexpr std::uint32_t kM0 = 0xD2511F53u, kM1 = 0xCD9E8D57u;

  PhiloxLanes(const CpuScoreOptions& options, const Lanes& lanes, int first) {
    k0_[0] = static_cast<std::uint32_t>(options.seed);
    k1_[0] = static_cast<std::uint32_t>(options.seed >> 32);
    for (int round = 1; round < 10; ++round) {
      k0_[round] = k0_[round - 1] + 0x9E3779B9u;
      k1_[round] = k1_[round - 1] + 0xBB67AE85u;
    }
    batch_ = static_cast<std::uint32_t>(options.batch);
    for (int lane = 0; lane < kCount; ++lane) {
      const auto row = static_cast<std::uint32_t>(lanes.row[first + lane]);
      rows_[lane] = row / 16 * 8 + row % 8;
      heads_[lane] = static_cast<std::uint32_t>(lanes.head[first + lane]);
    }
  }

  // Computes out[w][lane], word w of the call for key pair `pair`. Vectors of 64-bit elements suit 32 x 32 bit
  // multiplies; the high halves of words are arbitrary until the end.
  void words(std::uint32_t pair, std::uint32_t (&out)[4][kCount]) const {
    constexpr int kVector = kLanes / 2, kVectors = kCount / kVector;
    U64 x[kVectors][4];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      x[v][0] = U64{} + batch_, x[v][1] = load_vector<U64>(heads_ + v * kVector);
      x[v][2] = load_vector<U64>(rows_ + v * kVector), x[v][3] = U64{} + pair;
    }
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const U64 of_x0 = multiply_low_words(x[v][0], kM0), of_x2 = multiply_low_words(x[v][2], kM1);
        x[v][0] = (of_x2 >> 32) ^ x[v][1] ^ k0_[round];
        x[v][1] = of_x2;
        x[v][2] = (of_x0 >> 32) ^ x[v][3] ^ k1_[round];
        x[v][3] = of_x0;
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      for (int w = 0; w < 4; ++w) {
        for (int lane = 0; lane < kVector; ++lane) {
          out[w][v * kVector + lane] = static_cast<std::uint32_t>(x[v][w][lane]);
        }
      }
    }
  }

 private:
  alignas(64) std::uint64_t rows_[kCount], heads_[kCount];
  std::uint32_t batch_, k0_[10], k1_[10];
};

// Returns true if, for each lane i of [first, first + 8), lane i + 8 is the row 8 further in the same head and the same
// square. The same Philox calls then serve both lanes.
template <int kN>
bool shares_calls(const Lanes& lanes, int first) {
  if (PhiloxLanes::kCount < 8 || first + 16 > kN) return false;
  for (int lane = 0; lane < 8; ++lane) {
    const std::int32_t row = lanes.row[first + lane];
    if (row % 16 >= 8 || lanes.row[first + lane + 8] != row + 8 ||
        lanes.head[first + lane + 8] != lanes.head[first + lane]) {
      return false;
    }
  }
  return true;
}

// Computes the words of tile rows [first, last). `words` is a tile [key][kN].
template <class Engine>
void draw_words(const CpuScoreOptions& options, const Lanes& lanes, int key_begin, int first, int last,
                std::uint32_t* words) {
  constexpr int kN = Engine::kN, kCalls = PhiloxLanes::kCount;
  static_assert(kN % kCalls == 0);
  const int base = key_begin + options.k_skipped;  // key of tile row 0
  for (int lane = 0; lane < kN;) {
    const PhiloxLanes calls(options, lanes, lane);
    const int served = shares_calls<kN>(lanes, lane) ? 2 : 1;
    for (int square = (base + first) / 16; square * 16 < base + last; ++square) {
      for (int pair = 0; pair < 4; ++pair) {
        alignas(64) std::uint32_t drawn[4][kCalls];
        calls.words(static_cast<std::uint32_t>(square * 4 + pair), drawn);
        for (int half = 0; half < 2; ++half) {
          const int r = square * 16 + half * 8 + pair * 2 - base;
          for (int group = 0; group < served; ++group) {
            const std::int32_t* row = lanes.row + lane + group * kCalls;
            std::uint32_t* const to = words + static_cast<std::ptrdiff_t>(r) * kN + lane + group * kCalls;
            for (int i = 0; i < kCalls; ++i) {
              const std::uint32_t word = row[i] & 8 ? drawn[half * 2 + 1][i] : drawn[half * 2][i];
              if (r >= first && r < last) to[i] = word << 16;
              if (r + 1 >= first && r + 1 < last) to[kN + i] = word;
            }
          }
        }
      }
    }
    lane += served * kCalls;
  }
}

}  // namespace
}  // namespace strobe::cpu
