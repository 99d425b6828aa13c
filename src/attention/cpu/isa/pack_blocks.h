// Packing for fp32 engines on x86, in square blocks of kLanes x kLanes elements. Blocks are converted to fp32 on load
// and transposed in registers if the layout requires it. The results equal those of pack.h. BroadcastEngine inherits
// BlockPack. isa.h defines panels, chunks and steps.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/arithmetic.h"
#include "attention/cpu/isa/store.h"
#include "core/simd.h"

namespace strobe::cpu {
namespace {

// Reads the source as fp32 vectors, with zeros for elements outside it. Records if a value is not finite.
template <DType Source>
struct BlockReader {
  const Pack& pack;
  F32 probe{};  // sum of x * 0, which is NaN if an x is not finite

  STROBE_INLINE F32 row(int r, int col) {
    if (r >= pack.count || col >= pack.cols || !pack.rows[r]) return F32{};
    const bool whole = col + kLanes <= pack.cols && pack.col_stride == 1;
    const F32 x = whole ? load_as(pack.rows[r], Source, col) : edge(r, col);
    probe = fma(x, F32{}, probe);
    return x;
  }
  __attribute__((noinline)) F32 edge(int r, int col) const {
    const int count = pack.cols - col < kLanes ? pack.cols - col : kLanes;
    if (pack.col_stride == 1) return load_some(pack.rows[r], Source, col, count);
    const float value = load_some(pack.rows[r], Source, 0, 1)[0];
    float values[kLanes] = {};
    for (int i = 0; i < count; ++i) values[i] = value;
    return load(values);
  }
  bool met_non_finite() const { return any(probe != probe); }
};

STROBE_INLINE void store_low(float* to, F32 x) {
#if defined(__AVX512F__)
  _mm256_storeu_ps(to, _mm512_castps512_ps256((__m512)x));
#else
  _mm_storeu_ps(to, _mm256_castps256_ps128((__m256)x));
#endif
}
STROBE_INLINE void store_high(float* to, F32 x) {
#if defined(__AVX512F__)
  _mm256_storeu_ps(to, _mm512_extractf32x8_ps((__m512)x, 1));
#else
  _mm_storeu_ps(to, _mm256_extractf128_ps((__m256)x, 1));
#endif
}

template <int M, int N, int K>
struct BlockPack {
  static_assert(2 * K == kLanes && N % kLanes == 0);

  static bool pack_m(const Pack& a) {
    return by_source(a, [](auto& in, const Pack& a) {
      const int steps = round_up(a.cols, K), rows = round_up(a.count, M);
      for (int r = 0; r < rows; ++r) {
        for (int t = 0; t < steps; t += kLanes) put_m(a, steps, r, t, in.row(r, t));
      }
    });
  }

  static bool pack_mt(const Pack& a) {
    return by_source(a, [](auto& in, const Pack& a) {
      const int steps = round_up(a.count, K), rows = round_up(a.cols, M);
      for (int t = 0; t < steps; t += kLanes) {
        for (int r = 0; r < rows; r += kLanes) {
          F32 v[kLanes];
          for (int i = 0; i < kLanes; ++i) v[i] = in.row(t + i, r);
          transpose(v);
          for (int i = 0; i < kLanes && r + i < rows; ++i) put_m(a, steps, r + i, t, v[i]);
        }
      }
    });
  }

  static bool pack_n(const Pack& a) {
    return by_source(a, [](auto& in, const Pack& a) {
      const int steps = round_up(a.cols, K);
      for (int t = 0; t < steps; t += kLanes) {
        for (int first = 0; first < N; first += kLanes) {
          F32 v[kLanes];
          for (int i = 0; i < kLanes; ++i) v[i] = in.row(first + i, t);
          transpose(v);
          for (int i = 0; i < kLanes && t + i < steps; ++i) {
            store(static_cast<float*>(a.out) + (t + i) * N + first, v[i]);
          }
        }
      }
    });
  }

  static bool pack_nt(const Pack& a) {
    return by_source(a, [](auto& in, const Pack& a) {
      const int steps = round_up(a.count, K), cols = round_up(a.cols, N);
      for (int t = 0; t < steps; ++t) {
        for (int c = 0; c < cols; c += kLanes) {
          const std::ptrdiff_t panel = static_cast<std::ptrdiff_t>(c / N) * steps * N;
          store(static_cast<float*>(a.out) + panel + t * N + c % N, in.row(t, c));
        }
      }
    });
  }

 private:
  // Calls body(reader, a) with a reader for the source's type. Returns true if a value is not finite.
  template <class Body>
  static bool by_source(const Pack& a, Body body) {
    if (a.dtype == DType::fp32) return run(BlockReader<DType::fp32>{a}, body);
    if (a.dtype == DType::fp16) return run(BlockReader<DType::fp16>{a}, body);
    return run(BlockReader<DType::bf16>{a}, body);
  }
  template <class Reader, class Body>
  static bool run(Reader in, Body body) {
    body(in, in.pack);
    return in.met_non_finite();
  }

  // Stores steps [t, t + kLanes) of row r of the M panels. Steps >= `steps` are not stored.
  STROBE_INLINE static void put_m(const Pack& a, int steps, int r, int t, F32 x) {
    const std::ptrdiff_t panel = static_cast<std::ptrdiff_t>(r / M) * steps * M;
    float* chunk = static_cast<float*>(a.out) + panel + t * M + r % M * K;
    store_low(chunk, x);
    if (t + K < steps) store_high(chunk + M * K, x);
  }
};

}  // namespace
}  // namespace strobe::cpu
