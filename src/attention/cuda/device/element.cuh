// Element types of the tiled kernels, and how shared memory represents them (split_format.h). 16-bit elements are
// stored unchanged. An fp32 element is split into up to three 16-bit floats, its terms. Each term has its own plane: a
// tile of the first terms of all elements, then a tile of the second terms, and so on.
#pragma once

#include "attention/cuda/device/ptx.cuh"
#include "attention/cuda/device/split_format.h"

namespace strobe::cuda {

struct Fp32 {};
struct Fp32Scaled {};
struct Tf32 {};

template <class T>
struct Element {
  using Type = std::uint16_t;
  using Term = T;
  static constexpr SplitFormat kSplitFormat = SplitFormat::whole;
};

template <class TermType, SplitFormat kHeld>
struct Fp32Element {
  using Type = float;
  using Term = TermType;
  static constexpr SplitFormat kSplitFormat = kHeld;
};

template <>
struct Element<Fp32> : Fp32Element<Bf16, SplitFormat::full> {};
template <>
struct Element<Fp32Scaled> : Fp32Element<Fp16, SplitFormat::scaled> {};
template <>
struct Element<Tf32> : Fp32Element<Fp16, SplitFormat::rounded> {};

template <class T>
using ElementType = typename Element<T>::Type;

template <class T>
inline constexpr SplitFormat kSplitFormat = Element<T>::kSplitFormat;
template <class T>
inline constexpr int kTerms = terms_of(kSplitFormat<T>);

template <class T>
inline constexpr bool kIsFp32 = kSplitFormat<T> != SplitFormat::whole;
template <class T>
inline constexpr bool kIsScaled = has_scales(kSplitFormat<T>);

// Number of MMAs that multiply two split operands. Each multiplies a plane of the left operand by one of the right.
// split_mma() lists these pairs of planes, smallest terms first. The function has no loop, so that planes stay in
// registers.
template <class T>
inline constexpr int kSplitMmas = kTerms<T>*(kTerms<T> + 1) / 2;

struct SplitMma {
  int left, right;
};

template <class T>
__device__ __forceinline__ constexpr SplitMma split_mma(int i) {
  i += 6 - kSplitMmas<T>;
  return i == 0   ? SplitMma{0, 2}
         : i == 1 ? SplitMma{1, 1}
         : i == 2 ? SplitMma{2, 0}
         : i == 3 ? SplitMma{0, 1}
         : i == 4 ? SplitMma{1, 0}
                  : SplitMma{0, 0};
}

// Splits two neighbouring elements into packed words, one per plane.
template <class T>
__device__ __forceinline__ void split_to_words(std::uint32_t (&words)[kTerms<T>], float low, float high) {
  if constexpr (kTerms<T> == 1) {
    words[0] = pack<typename Element<T>::Term>(low, high);
  } else {
#pragma unroll
    for (int term = 0; term < kTerms<T>; ++term) {
      words[term] = pack<typename Element<T>::Term>(low, high);
      if constexpr (kIsScaled<T>) {
        low -= unpack<Fp16>(static_cast<std::uint16_t>(words[term]));
        high -= unpack<Fp16>(static_cast<std::uint16_t>(words[term] >> 16));
      } else {
        low -= bits_to_float(words[term] << 16);
        high -= bits_to_float(words[term] & 0xffff0000u);
      }
    }
  }
}

// The two elements of a packed word; 16-bit types only.
template <class T>
__device__ __forceinline__ float low_half(std::uint32_t word) {
  if constexpr (!kIsFp32<T>) return unpack<T>(static_cast<std::uint16_t>(word));
  return 0;
}
template <class T>
__device__ __forceinline__ float high_half(std::uint32_t word) {
  if constexpr (!kIsFp32<T>) return unpack<T>(static_cast<std::uint16_t>(word >> 16));
  return 0;
}

template <class T>
__device__ __forceinline__ float to_float(ElementType<T> element) {
  if constexpr (!kIsFp32<T>) {
    return unpack<T>(element);
  } else {
    return element;
  }
}

// Largest finite magnitude among values. Infinities and NaN must not set a scale that other rows share. take() clears
// the sign and adds 1 to the exponent field: the bits of non-finite values become negative integers, which max()
// ignores.
struct LargestFinite {
  static constexpr std::uint32_t kOneUp = 1u << 23;
  int bits = kOneUp;

  __device__ __forceinline__ void take(float value) {
    bits = max(bits, static_cast<int>((float_to_bits(value) & 0x7fffffffu) + kOneUp));
  }
  __device__ __forceinline__ operator float() const { return bits_to_float(static_cast<std::uint32_t>(bits) - kOneUp); }
};

// Power of two that scales a row to the top of fp16's range (2^14 to 2^15 for its largest magnitude), and its inverse.
struct RowScale {
  float up, down;

  __device__ __forceinline__ explicit RowScale(float largest) {
    const std::uint32_t exponent = max(float_to_bits(largest) >> 23, 15u);  // biased; >= 15 keeps `up`, `down` normal
    up = bits_to_float((268 - exponent) << 23);
    down = bits_to_float((exponent - 14) << 23);
  }
};

}  // namespace strobe::cuda
