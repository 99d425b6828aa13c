// Times of a training step on several ranks, and of the same step on one of them alone. `strobe lm bench --ddp` calls.
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

// One step on one rank, in seconds. hidden lies within backward; the others one after the other within whole.
struct ParallelStep {
  double whole = 0, forward = 0, backward = 0, exposed = 0, hidden = 0, optimizer = 0;
};

// Something that went on during a step: [begin, begin + seconds) after the ranks had begun it.
struct ParallelSpan {
  enum class Track { compute, communication };
  Track track = Track::compute;
  std::string name;
  double begin = 0, seconds = 0;
  std::int64_t bytes = 0;  // of a call
};

// Bytes that this process held.
struct ParallelMemory {
  std::size_t after_init = 0, before_update = 0, after_step = 0;
};

// As one rank saw it.
struct ParallelTimes {
  std::vector<ParallelStep> steps{};
  std::int64_t calls = 0, bytes = 0, buckets = 0;  // of a step
  std::size_t optimizer_bytes = 0;                 // AdamW's averages
  ParallelMemory memory{};
  double loss = 0;                    // of the last step
  std::vector<ParallelSpan> spans{};  // of the last step
  std::int64_t skipped = 0;           // fp16: steps whose gradient overflowed; they update nothing
};

// What the memory of some rank's device lacks for a case on all ranks that share it, by the formula of one process;
// empty where it fits. All ranks call, before any of them allocates, and get the same.
std::string lacking_memory(comm::Communicator& communicator, const BenchCase& one);

// Every rank takes its rows of the case's batch; a step begins when all ranks have come to it. Throws Error for what no
// rank can be (parallel_model.h), Error(out_of_memory).
ParallelTimes time_parallel_step(comm::Communicator& communicator, const BenchCase& one,
                                 const ParallelOptions& exchange);

// The whole batch on this process, with the memory and the threads of time_step (step_bench.h). Throws
// Error(out_of_memory).
ParallelTimes time_lone_step(const BenchCase& one, const std::function<void()>& after_step);

// Between ranks.
Json to_json(const ParallelTimes& times);
ParallelTimes parallel_times_from(const Json& json);

// --- traces ----------------------------------------------------------------------------------------------------------

// A step, by rank.
struct TracedStep {
  std::string name;
  std::vector<std::vector<ParallelSpan>> ranks;
};

// A process for each rank, with a track of steps, one of computing and one of communication; the steps one after the
// other, in each of which the ranks' clocks are 0 where they had come together.
Json parallel_trace_json(std::span<const TracedStep> steps);

}  // namespace strobe::lm
