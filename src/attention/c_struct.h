// Reads and initialises the structs of the C ABI. Each struct contains its size, so callers and libraries of different
// versions work together. Used by c_api.cpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/fail.h"
#include "strobe/version.h"

namespace strobe {

// Name of a struct and its size in ABI version 1, the smallest size that a caller may pass.
struct StructAge {
  const char* name;
  std::size_t oldest;
};

inline constexpr std::size_t kMaxStruct = 1 << 16;  // bytes; a larger size must come from an uninitialised struct

// Returns the caller's struct as this version defines it. If the struct is shorter (an older caller), missing fields
// are zero, which is their default. If it is longer (a newer caller), the bytes past this version's size must be zero.
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

// Sets a struct of `size` bytes to zero, then sets its size field.
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
