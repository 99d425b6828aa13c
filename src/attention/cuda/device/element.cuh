// Element types of tensors as kernels hold them. 16-bit elements lie in shared memory as they are. An fp32 element is
// the sum of three bf16 parts, each in a plane of its own, so that the tensor cores multiply it: six of the nine
// products of parts make 24 bits, the other three are below the last of them.
#pragma once

#include "attention/cuda/device/ptx.cuh"

namespace strobe::cuda {

struct Fp32 {};

template <class T>
struct Element {
  using Type = std::uint16_t;
  static constexpr int kPlanes = 1;
};

template <>
struct Element<Fp32> {
  using Type = float;
  static constexpr int kPlanes = 3;
};

template <class T>
using ElementType = typename Element<T>::Type;

template <class T>
inline constexpr int kPlanes = Element<T>::kPlanes;

template <class T>
inline constexpr bool kIsBf16 = false;
template <>
inline constexpr bool kIsBf16<Bf16> = true;

// Products of planes (left, right), the smallest first.
inline constexpr int kPlaneProducts = 6;
struct PlaneProduct {
  int left, right;
};
__device__ __forceinline__ constexpr PlaneProduct plane_product(int i) {
  return i == 0   ? PlaneProduct{0, 2}
         : i == 1 ? PlaneProduct{1, 1}
         : i == 2 ? PlaneProduct{2, 0}
         : i == 3 ? PlaneProduct{0, 1}
         : i == 4 ? PlaneProduct{1, 0}
                  : PlaneProduct{0, 0};
}

// Two neighbouring elements as packed words, one for each plane.
template <class T>
__device__ __forceinline__ void to_planes(std::uint32_t (&words)[kPlanes<T>], float low, float high) {
  if constexpr (kPlanes<T> == 1) {
    words[0] = pack<T>(low, high);
  } else {
#pragma unroll
    for (int plane = 0; plane < kPlanes<T>; ++plane) {
      words[plane] = pack<Bf16>(low, high);
      low -= bits_to_float(words[plane] << 16);
      high -= bits_to_float(words[plane] & 0xffff0000u);
    }
  }
}

// c [16x8] += a [16x16] b [16x8], all planes, or c = a b. Tensor cores cut off what does not fit an accumulator, always
// towards zero: a sum that stayed in one would drift. So the planes' products start from zero, the smallest first, and
// what they make is added with rounding.
enum class From { zero, sum };

template <class T>
__device__ __forceinline__ void mma_planes(float (&c)[4], const std::uint32_t (&a)[kPlanes<T>][4],
                                           const std::uint32_t (&b)[kPlanes<T>][2], From from) {
  if constexpr (kPlanes<T> == 1) {
    if (from == From::zero) c[0] = c[1] = c[2] = c[3] = 0;
    mma<T>(c, a[0], b[0][0], b[0][1]);
  } else {
    float part[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < kPlaneProducts; ++i) {
      const PlaneProduct planes = plane_product(i);
      mma<Bf16>(part, a[planes.left], b[planes.right][0], b[planes.right][1]);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) c[e] = from == From::zero ? part[e] : c[e] + part[e];
  }
}

// The two elements of a packed word.
template <class T>
__device__ __forceinline__ float low_half(std::uint32_t word) {
  if constexpr (kPlanes<T> == 1) return unpack<T>(static_cast<std::uint16_t>(word));
  return 0;
}
template <class T>
__device__ __forceinline__ float high_half(std::uint32_t word) {
  if constexpr (kPlanes<T> == 1) return unpack<T>(static_cast<std::uint16_t>(word >> 16));
  return 0;
}

template <class T>
__device__ __forceinline__ float to_float(ElementType<T> element) {
  if constexpr (kPlanes<T> == 1) {
    return unpack<T>(element);
  } else {
    return element;
  }
}

}  // namespace strobe::cuda
