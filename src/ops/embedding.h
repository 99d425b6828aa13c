// Rows of a table by token, and of one by position.
#pragma once

#include <cstdint>

#include "ops/place.h"
#include "strobe/dtype.h"

namespace strobe::ops {

struct Embedding {
  std::int64_t tokens = 0, vocabulary = 0, width = 0;
  DType dtype = DType::fp32;  // of y and dy
};

// Rows that are added to those of tokens: token t gets row t % context.
struct Positions {
  const float* table = nullptr;  // [context, width]; null: none
  std::int64_t context = 1;
};

// y[t] = table[token[t]] + positions, rounded once; token: [tokens], each in [0, vocabulary), which data readers have
// checked; table: [vocabulary, width], fp32. The gradient of positions: column_sums of dy [sequences, context * width].
void embedding(const Place& place, const Embedding& shape, const std::int32_t* token, const float* table, void* y,
               const Positions& positions = {});

// dtable[token[t]] += dy[t], over zeros or what was there; a row's additions in the order of t where the place is
// deterministic.
void embedding_backward(const Place& place, const Embedding& shape, const std::int32_t* token, const void* dy,
                        float* dtable, Into into = Into::sum);

}  // namespace strobe::ops
