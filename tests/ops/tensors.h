// Values of a tensor in the dtype of an operation, with conversions from and to double.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/half.h"
#include "strobe/dtype.h"

namespace strobe::ops {

class Values {
 public:
  Values(DType dtype, const std::vector<double>& values) : dtype_(dtype), bytes_(values.size() * size_of(dtype)) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      store_element(bytes_.data(), dtype, static_cast<std::int64_t>(i), static_cast<float>(values[i]));
    }
  }
  Values(DType dtype, std::size_t count) : Values(dtype, std::vector<double>(count)) {}

  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  DType dtype() const { return dtype_; }
  std::size_t size() const { return bytes_.size() / size_of(dtype_); }
  double operator[](std::size_t i) const { return load_element(bytes_.data(), dtype_, static_cast<std::int64_t>(i)); }
  std::vector<double> widened() const {
    std::vector<double> values(size());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = (*this)[i];
    return values;
  }
  bool operator==(const Values& other) const { return bytes_ == other.bytes_; }

 private:
  DType dtype_;
  std::vector<unsigned char> bytes_;
};

// Returns the spacing of the type's values just above 1.
inline double unit_of(DType dtype) { return dtype == DType::fp32 ? 0x1p-23 : dtype == DType::fp16 ? 0x1p-10 : 0x1p-7; }

inline constexpr DType kTypes[] = {DType::fp32, DType::fp16, DType::bf16};

}  // namespace strobe::ops
