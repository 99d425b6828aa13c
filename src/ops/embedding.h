// Embedding lookup by token and position, and its gradient. Called by lm/models/.
#pragma once

#include <cstdint>

#include "ops/execution_context.h"
#include "strobe/dtype.h"

namespace strobe::ops {

struct Embedding {
  std::int64_t tokens = 0, vocabulary = 0, width = 0;
  DType dtype = DType::fp32;  // type of y and dy
};

// Positional embeddings, which are added to the token embeddings: token t gets row t % context.
struct Positions {
  const float* table = nullptr;  // [context, width]; null: none
  std::int64_t context = 1;
};

// Computes y[t] = table[token[t]] + positions.table[t % context], rounded once. token: [tokens], each in [0,
// vocabulary) (not checked here; data readers check it). table: [vocabulary, width], fp32. The gradient of
// positions.table is column_sums of dy viewed as [sequences, context * width].
void embedding(const ExecutionContext& execution, const Embedding& shape, const std::int32_t* token, const float* table,
               void* y, const Positions& positions = {});

// Computes dtable[token[t]] += dy[t] for all t; Into::set first sets dtable to zero. If execution.deterministic is set,
// each row is summed in the order of t.
void embedding_backward(const ExecutionContext& execution, const Embedding& shape, const std::int32_t* token,
                        const void* dy, float* dtable, Into into = Into::sum);

}  // namespace strobe::ops
