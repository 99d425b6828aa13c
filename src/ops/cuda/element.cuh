// Vector loads and stores of tensor rows, which convert to and from fp32, and block reductions. Used by the kernels of
// this folder.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/cuda/element.cuh"

namespace strobe::ops::cuda {

using strobe::cuda::narrowed;
using strobe::cuda::widened;
using strobe::cuda::with_element;

// N adjacent elements, in accesses of at most 16 bytes.
template <class T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Pack {
  T at[N];
};

template <int N, class T>
__device__ __forceinline__ Pack<T, N> pack_at(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}

// Compiler fence that keeps a pack of 16-bit elements in packed form: later uses convert the elements again. Otherwise
// the compiler would keep both halves of each word as floats in between, which takes twice the registers.
template <class T, int N>
__device__ __forceinline__ void stay_packed(Pack<T, N>& pack) {
  if constexpr (sizeof(pack) == 16 && sizeof(T) == 2) {
    for (unsigned& word : reinterpret_cast<unsigned(&)[4]>(pack)) asm volatile("" : "+r"(word));
  }
}

template <int N, class T>
__device__ __forceinline__ void load(const T* from, float (&to)[N]) {
  const Pack<T, N> pack = pack_at<N>(from);
#pragma unroll
  for (int n = 0; n < N; ++n) to[n] = widened(pack.at[n]);
}

template <int N, class T>
__device__ __forceinline__ void store(T* to, const float (&from)[N]) {
  Pack<T, N> pack;
#pragma unroll
  for (int n = 0; n < N; ++n) pack.at[n] = narrowed<T>(from[n]);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

template <class T>
inline constexpr int kLanes = 16 / sizeof(T);  // elements per access

// Returns true if rows of `width` elements at all these pointers allow 16-byte accesses.
template <class T, class... Pointers>
bool fits_lanes(std::int64_t width, const Pointers*... pointers) {
  return width % kLanes<T> == 0 && ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

// Calls body with the number of elements per access as a constant: kLanes<T> (16 bytes) if `fits`, otherwise 1.
template <class T, class Body>
void with_lanes(bool fits, Body&& body) {
  if (fits) {
    body(std::integral_constant<int, kLanes<T>>{});
  } else {
    body(std::integral_constant<int, 1>{});
  }
}

// Returns the first column of the thread in a RowGrid (row_grid.h).
template <int N>
__device__ __forceinline__ std::int64_t first_column() {
  return (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N;
}

struct Sum {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a + b;
  }
};
struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Reduces over all threads of the block in a fixed order. All threads must call it, and every thread gets the result.
template <int kThreads, class Join, class C>
__device__ __forceinline__ C over_block(C value) {
  constexpr int kWarps = kThreads / 32;
  __shared__ C part[kWarps];
  const Join join;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = join(value, __shfl_xor_sync(0xffffffffu, value, step));
  __syncthreads();  // protects threads that still read the result of an earlier call
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  C all = part[0];
#pragma unroll
  for (int warp = 1; warp < kWarps; ++warp) all = join(all, part[warp]);
  return all;
}

}  // namespace strobe::ops::cuda
