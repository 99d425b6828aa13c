// Times a training step on several ranks, and the same step in a single process. `strobe lm bench --ddp` uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "core/json.h"
#include "lm/data_parallel/data_parallel.h"
#include "lm/profile/step_bench.h"

namespace strobe::lm {

// One step on one rank, in seconds. `hidden` is communication during backward, `exposed` communication after it.
// forward, backward, exposed and optimizer are disjoint parts of `whole`. In one process on CUDA they are
// measured in additional steps, phase by phase.
struct ParallelStep {
  double whole = 0, forward = 0, backward = 0, exposed = 0, hidden = 0, optimizer = 0;
};

// An activity during a step: [begin, begin + seconds), in seconds since its rank began the step.
struct ParallelSpan {
  enum class Track { compute, communication };
  Track track = Track::compute;
  std::string name;
  double begin = 0, seconds = 0;
  std::int64_t bytes = 0;  // communication: bytes exchanged
};

// Bytes that this process has allocated: before the first step, at the end of the last backward, after the last step.
// In one process on CUDA, before_update equals after_step.
struct ParallelMemory {
  std::size_t after_init = 0, before_update = 0, after_step = 0;
};

// Times that one rank measured.
struct ParallelTimes {
  std::vector<ParallelStep> steps{};
  std::int64_t calls = 0, bytes = 0, buckets = 0;  // per step
  std::size_t optimizer_bytes = 0;                 // AdamW's moments
  ParallelMemory memory{};
  double loss = 0;                    // loss of the last step
  std::vector<ParallelSpan> spans{};  // spans of the last step
  std::int64_t skipped = 0;           // fp16: timed steps that were skipped because the gradient overflowed
};

// Returns an error text if the ranks that share a device do not fit in its memory; empty if they fit. Uses the
// predicted bytes per rank. Collective: all ranks call it before any of them allocates, and all get the same text.
std::string lacking_memory(comm::Communicator& communicator, const BenchCase& one);

// Times the step on all ranks. Every rank computes its sequences of the case's batch, and each step begins with a
// barrier. Throws Error if the model cannot be distributed (parallel_model.h), and Error(out_of_memory).
ParallelTimes time_parallel_step(comm::Communicator& communicator, const BenchCase& one,
                                 const ParallelOptions& exchange);

// Times the step on the whole batch in this process, with the memory options and threads of time_step (step_bench.h).
// Calls `after_step` after each step. Throws Error(out_of_memory).
ParallelTimes time_lone_step(const BenchCase& one, const std::function<void()>& after_step);

// Convert times to the JSON that processes exchange, and back.
Json to_json(const ParallelTimes& times);
ParallelTimes parallel_times_from(const Json& json);

// --- traces ----------------------------------------------------------------------------------------------------------

// One step: the spans of each rank.
struct TracedStep {
  std::string name;
  std::vector<std::vector<ParallelSpan>> ranks;
};

// Returns a Chrome trace with one process per rank. A process has three tracks: steps, compute and communication. Steps
// follow one another. The ranks are aligned at the end of the barrier with which a step begins.
Json parallel_trace_json(std::span<const TracedStep> steps);

}  // namespace strobe::lm
