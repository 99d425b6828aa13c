// Inner loop of RoPE: rotates one head. isa/table.h collects it.
#pragma once

#include "ops/cpu/element.h"

namespace strobe::ops {
namespace {  // separate copy per instruction set

// Rotates x [dim] in place. table: [dim / 2, 2], cosine and sine. sign -1 applies the inverse rotation.
template <class T>
void rope_head(T* x, const Compute<T>* table, std::int64_t dim, Compute<T> sign) {
  using C = Compute<T>;
  for (std::int64_t i = 0; i < dim; i += 2) {
    const C cosine = table[i], sine = sign * table[i + 1];
    const C even = widened(x[i]), odd = widened(x[i + 1]);
    x[i] = narrowed<T>(even * cosine - odd * sine);
    x[i + 1] = narrowed<T>(even * sine + odd * cosine);
  }
}

}  // namespace
}  // namespace strobe::ops
