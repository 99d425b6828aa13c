// Sums of vectors on the host: what a reduction adds.
#pragma once

#include "comm/collective.h"

namespace strobe::comm {

// out[i] = a[i] + b[i]; out may be a or b, no other overlap. Not for bytes.
void add(const void* a, const void* b, void* out, std::int64_t count, Element element);

}  // namespace strobe::comm
