// Rows of a table by token.
#pragma once

#include <cstdint>

#include "ops/place.h"
#include "strobe/dtype.h"

namespace strobe::ops {

struct Embedding {
  std::int64_t tokens = 0, vocabulary = 0, width = 0;
  DType dtype = DType::fp32;  // of y and dy
};

// y[t] = table[token[t]]; token: [tokens], each in [0, vocabulary), which data readers have checked; table:
// [vocabulary, width], fp32.
void embedding(const Place& place, const Embedding& shape, const std::int32_t* token, const float* table, void* y);

// dtable[token[t]] += dy[t], over zeros or what was there; a row's additions in the order of t where the place is
// deterministic.
void embedding_backward(const Place& place, const Embedding& shape, const std::int32_t* token, const void* dy,
                        float* dtable, Into into = Into::sum);

}  // namespace strobe::ops
