// A chunk of a problem file as the library takes it: one head a batch, batches 3 N d apart.
#include <algorithm>

#include "solve/solver.h"

namespace strobe::solve {

Attention attention_of(const ProblemSize& size, std::int64_t batches, const float* inputs) {
  const std::int64_t elements = size.elements();
  const auto view = [&](std::int64_t which) {
    return ConstView{inputs ? inputs + which * elements : nullptr,
                     DType::fp32,
                     {batches, 1, size.rows, size.dim},
                     {3 * elements, elements, size.dim, 1}};
  };
  return {.q = view(0), .k = view(1), .v = view(2)};
}

ForwardOutputs outputs_of(const ProblemSize& size, std::int64_t batches, float* outputs) {
  return {.o = view_bhsd<void>(outputs, DType::fp32, {batches, 1, size.rows, size.dim})};
}

std::size_t chunk_workspace(const ProblemSize& size, std::int64_t batches, const Execution& execution) {
  std::size_t bytes = 0;
  for (const std::int64_t count : {batches, size.batch % batches}) {
    if (count > 0)
      bytes = std::max(bytes, workspace_bytes(attention_of(size, count, nullptr), Pass::forward, execution));
  }
  return bytes;
}

}  // namespace strobe::solve
