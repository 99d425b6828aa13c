// Element types of tensors in kernels (float, __half and __nv_bfloat16) and their conversions; kernels compute in fp32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "strobe/dtype.h"

namespace strobe::cuda {

__device__ __forceinline__ float widened(float x) { return x; }
__device__ __forceinline__ float widened(__half x) { return __half2float(x); }
__device__ __forceinline__ float widened(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ __forceinline__ T narrowed(float x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(x);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(x);
  } else {
    return x;
  }
}

// Calls body(type) with a null pointer of the element's type.
template <class Body>
void with_element(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::fp32: return body(static_cast<float*>(nullptr));
    case DType::fp16: return body(static_cast<__half*>(nullptr));
    case DType::bf16: return body(static_cast<__nv_bfloat16*>(nullptr));
  }
}

}  // namespace strobe::cuda
