// Element types of tensors. Kernels accumulate in fp32 or better for every element type.
#pragma once

#include <cstddef>

namespace strobe {

enum class DType { fp32, fp16, bf16 };

// Returns the bytes per element.
constexpr std::size_t size_of(DType dtype) { return dtype == DType::fp32 ? 4 : 2; }

// Returns "fp32", "fp16" or "bf16", or "unknown dtype" for any other value.
constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::fp32: return "fp32";
    case DType::fp16: return "fp16";
    case DType::bf16: return "bf16";
  }
  return "unknown dtype";
}

}  // namespace strobe
