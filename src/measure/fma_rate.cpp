// Measures the FMA rate of the widest supported instruction set with a loop on registers. The accumulators are
// independent and numerous enough to hide the FMA latency (4 cycles on up to 4 units).
#include <algorithm>
#include <vector>

#include "core/clock.h"
#include "device/host/thread_pool.h"
#include "measure/rates.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

namespace strobe {
namespace {

constexpr int kRounds = 2000;

// A benchmark loop. A call performs `flops` operations and returns a value that depends on all of them.
struct Loop {
  const char* name;
  double flops;
  float (*run)(float x, float y);
};

#if defined(__aarch64__)

constexpr int kAccumulators = 24;

// Reloads one operand for every eight FMAs, as real kernels do. If all operands stay in registers, Neoverse V1 runs at
// half its rate.
float run_neon(float x, float y) {
  const float operand[4] = {x, x, x, x};
  const float* from = operand;
  const float32x4_t b = vdupq_n_f32(y);
  float32x4_t sum[kAccumulators];
#pragma GCC unroll 32
  for (auto& s : sum) {
    s = vdupq_n_f32(0);
    asm volatile("" : "+w"(s));  // opaque: otherwise the compiler merges the equal accumulators
  }
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 32
    for (int i = 0; i < kAccumulators; i += 8) {
      asm volatile("" : "+r"(from));  // opaque: otherwise the compiler loads only once
      const float32x4_t a = vld1q_f32(from);
#pragma GCC unroll 8
      for (int j = i; j < i + 8; ++j) sum[j] = vfmaq_f32(sum[j], a, b);
    }
  }
  float total = 0;
#pragma GCC unroll 32
  for (auto& s : sum) total += vaddvq_f32(s);
  return total;
}

Loop choose_loop() { return {"neon", 2.0 * 4 * kAccumulators * kRounds, run_neon}; }

#elif defined(__x86_64__)

constexpr int kAccumulators256 = 12;
constexpr int kAccumulators512 = 24;

__attribute__((target("avx2,fma"))) float run_avx2(float x, float y) {
  const __m256 a = _mm256_set1_ps(x);
  const __m256 b = _mm256_set1_ps(y);
  __m256 sum[kAccumulators256];
#pragma GCC unroll 32
  for (auto& s : sum) {
    s = _mm256_setzero_ps();
    asm volatile("" : "+x"(s));  // opaque: otherwise the compiler merges the equal accumulators
  }
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 32
    for (auto& s : sum) s = _mm256_fmadd_ps(a, b, s);
  }
  float total = 0;
#pragma GCC unroll 32
  for (auto& s : sum) total += _mm256_cvtss_f32(s);
  return total;
}

__attribute__((target("avx512f"))) float run_avx512(float x, float y) {
  const __m512 a = _mm512_set1_ps(x);
  const __m512 b = _mm512_set1_ps(y);
  __m512 sum[kAccumulators512];
#pragma GCC unroll 32
  for (auto& s : sum) {
    s = _mm512_setzero_ps();
    asm volatile("" : "+v"(s));  // opaque: otherwise the compiler merges the equal accumulators
  }
  for (int round = 0; round < kRounds; ++round) {
#pragma GCC unroll 32
    for (auto& s : sum) s = _mm512_fmadd_ps(a, b, s);
  }
  float total = 0;
#pragma GCC unroll 32
  for (auto& s : sum) total += _mm512_cvtss_f32(s);
  return total;
}

float run_scalar(float x, float y) {
  float sum[16] = {};
  for (int round = 0; round < kRounds; ++round) {
    for (auto& s : sum) s += x * y * static_cast<float>(round);
  }
  return *std::max_element(sum, sum + 16);
}

Loop choose_loop() {
  if (__builtin_cpu_supports("avx512f")) return {"avx512", 2.0 * 16 * kAccumulators512 * kRounds, run_avx512};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return {"avx2", 2.0 * 8 * kAccumulators256 * kRounds, run_avx2};
  }
  return {"scalar", 2.0 * 16 * kRounds, run_scalar};
}

#else

float run_scalar(float x, float y) {
  float sum[16] = {};
  for (int round = 0; round < kRounds; ++round) {
    for (auto& s : sum) s += x * y * static_cast<float>(round);
  }
  return *std::max_element(sum, sum + 16);
}

Loop choose_loop() { return {"scalar", 2.0 * 16 * kRounds, run_scalar}; }

#endif

}  // namespace

const char* fma_instructions() { return choose_loop().name; }

double fma_rate(int threads, double seconds) {
  const Loop loop = choose_loop();
  volatile float x = 1.0f;  // read at run time, to prevent constant folding
  volatile float y = 0.5f;
  std::vector<double> rates(static_cast<std::size_t>(threads));
  parallel(threads, [&](int thread) {
    volatile float sink = 0;
    const double start = now_seconds();
    double best = 0;
    for (double begin = start; begin - start < seconds;) {
      for (int call = 0; call < 16; ++call) sink = sink + loop.run(x, y);
      const double end = now_seconds();
      best = std::max(best, 16 * loop.flops / (end - begin));
      begin = end;
    }
    rates[static_cast<std::size_t>(thread)] = best;
  });
  double total = 0;
  for (const double rate : rates) total += rate;
  return total;
}

}  // namespace strobe
