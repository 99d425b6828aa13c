// Element types of tensors. Accumulation is always fp32 or better, whatever the element type.
#pragma once

#include <cstddef>

namespace strobe {

enum class DType { fp32, fp16, bf16 };

constexpr std::size_t size_of(DType dtype) { return dtype == DType::fp32 ? 4 : 2; }

constexpr const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::fp32: return "fp32";
    case DType::fp16: return "fp16";
    case DType::bf16: return "bf16";
  }
  return "unknown dtype";
}

}  // namespace strobe
