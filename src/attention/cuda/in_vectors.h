// What decides, of a tensor as the caller has it, how kernels may load and store it.
#pragma once

#include <cstdint>

#include "strobe/view.h"

namespace strobe::cuda {

// Whether every row begins at a multiple of 16 bytes and is a whole number of them. Strides of dimensions of size 1 do
// not count: validate.cpp has put the head dimension there.
template <class Void>
bool in_vectors(const BasicView<Void>& view) {
  const auto bytes = static_cast<std::int64_t>(size_of(view.dtype));
  const auto whole = [&](std::int64_t elements) { return elements * bytes % 16 == 0; };
  return reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && view.stride[3] == 1 && whole(view.shape[3]) &&
         whole(view.stride[0]) && whole(view.stride[1]) && whole(view.stride[2]);
}

}  // namespace strobe::cuda
