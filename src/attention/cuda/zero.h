// Zeros on the caller's stream.
#pragma once

#include <cstddef>

namespace strobe::cuda {

void zero_async(void* data, std::size_t bytes, void* stream);

}  // namespace strobe::cuda
