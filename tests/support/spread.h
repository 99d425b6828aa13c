// Inputs in which adjacent rows differ by many powers of two. fp32 kernels on GPUs scale each group of rows by one
// factor. The small rows of a group must stay exact, because the outputs depend on them.
#pragma once

#include <array>
#include <cmath>
#include <utility>

#include "support/data.h"

namespace strobe::test {

// Applies value = change(tensor, row, value) to all elements of q, k, v and dO (tensors 0, 1, 2, 3).
template <class Change>
void change_inputs(Data& data, Change&& change) {
  Tensor* const tensors[] = {&data.q, &data.k, &data.v, &data.d_o};
  for (int t = 0; t < 4; ++t) {
    for_each(tensors[t]->view.shape, [&](auto b, auto h, auto s, auto e) {
      tensors[t]->set(b, h, s, e, change(t, s, tensors[t]->at(b, h, s, e)));
    });
  }
  data.remember();
}

// keys: large rows of K have probability 0; the small rows share the probability. values: large rows of V have almost
// no probability. rows: some rows of Q are 2^powers times smaller and the same rows of dO 2^powers times larger, so
// all rows contribute equally to dK. all: magnitudes of rows are spread over 60 powers of two in every tensor; some
// rows are zero.
enum class Spread { keys, values, rows, all };

inline constexpr std::array<std::pair<const char*, Spread>, 4> kSpreads = {
    {{"keys", Spread::keys}, {"values", Spread::values}, {"rows", Spread::rows}, {"all", Spread::all}}};

// Changes the inputs as described at Spread, with magnitudes that differ by 2^powers. `all` ignores `powers`.
inline void spread(Data& data, Spread kind, int powers) {
  change_inputs(data, [&](int tensor, std::int64_t row, float value) -> float {
    const bool odd = row % 4 == 1;
    const float positive = std::abs(value) + 0.5f;
    switch (kind) {
      case Spread::keys:
        if (tensor == 0) return std::ldexp(positive, powers);
        if (tensor == 1) return odd ? -positive : std::ldexp(value, -powers);
        return value;
      case Spread::values:
        if (tensor == 0) return positive;
        if (tensor == 1) return odd ? -32 * positive : value;
        return tensor == 2 && odd ? std::ldexp(value, powers) : value;
      case Spread::rows:
        if (!odd) return value;
        return tensor == 0 ? std::ldexp(value, -powers) : tensor == 3 ? std::ldexp(value, powers) : value;
      case Spread::all: {
        if (row % 11 == 3) return 0;
        const int size = static_cast<int>((row * 23 + tensor * 7) % 61) - 40;
        return std::ldexp(value, tensor == 0 ? size - 40 : size);  // scores are at most of the order of 1
      }
    }
    return value;
  });
}

}  // namespace strobe::test
