// Structs of the C ABI that know their own size: how callers and library of different age understand each other.
// Called by c_api.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/fail.h"
#include "strobe/version.h"

namespace strobe {

// What every version has had: the bytes up to the end of its first version.
struct StructAge {
  const char* name;
  std::size_t oldest;
};

inline constexpr std::size_t kMaxStruct = 1 << 16;  // beyond this a size is garbage

// The caller's struct as this library knows it. An older caller's is shorter: the rest is zero, which means the
// default. A newer one's is longer: what this library does not know must be zero.
template <class Struct>
Struct read_struct(const Struct* given, const StructAge& age) {
  if (!given) fail(ErrorCode::invalid_argument, "attention: {} is null", age.name);
  const std::size_t size = given->size;
  if (size < age.oldest || size > kMaxStruct) {
    fail(ErrorCode::invalid_argument, "attention: {} has size {}; it must be sizeof({}), {} in this version", age.name,
         size, age.name, sizeof(Struct));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) {
      fail(ErrorCode::unsupported,
           "attention: {} of size {} sets a field at byte {} that this version ({}, size {}) does not know", age.name,
           size, i, STROBE_VERSION_STRING, sizeof(Struct));
    }
  }
  Struct known{};
  std::memcpy(static_cast<void*>(&known), given, std::min(size, sizeof(Struct)));
  return known;
}

// A struct of the caller's age, all zero but for its size.
template <class Struct>
void clear_struct(Struct* out, std::size_t size, const StructAge& age) {
  if (!out) fail(ErrorCode::invalid_argument, "attention: {} is null", age.name);
  if (size < age.oldest || size > kMaxStruct) {
    fail(ErrorCode::invalid_argument,
         "attention: {} is initialised with size {}; it must be sizeof({}), {} in this version", age.name, size,
         age.name, sizeof(Struct));
  }
  std::memset(static_cast<void*>(out), 0, size);
  out->size = size;
}

}  // namespace strobe
