// Steps of several ranks as a trace that Perfetto and chrome://tracing open: where communication goes on during
// backward, the one lies above the other.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/json.h"
#include "lm/data_parallel/parallel_bench.h"

namespace strobe::lm {

// A step, by rank.
struct TracedStep {
  std::string name;
  std::vector<std::vector<ParallelSpan>> ranks;
};

// A process for each rank, with a track of steps, one of computing and one of communication; the steps one after the
// other, in each of which the ranks' clocks are 0 where they had come together.
Json parallel_trace_json(std::span<const TracedStep> steps);

}  // namespace strobe::lm
