// Attention of batches in float64 on all cores, rounded once at the end: the answers that cases are judged by. The
// library's `reference` is the definition, pair by pair; this is the same in tiles, several times faster.
#pragma once

#include "solve/problem_file.h"

namespace strobe::solve {

// `inputs` are size.batch times [Q, K, V] as in a problem file, `outputs` [batch, N, d].
void float64_forward(const ProblemSize& size, const float* inputs, float* outputs);

}  // namespace strobe::solve
