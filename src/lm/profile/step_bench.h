// Measures time and memory of a training step, as a whole and by phase.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/statistics.h"
#include "lm/model.h"
#include "lm/plan/bench_case.h"

namespace strobe::lm {

// Time and peak memory of a phase or of the whole pass.
struct PhaseTimes {
  Summary seconds;
  std::size_t peak_bytes = 0;
};

struct BenchTimes {
  PhaseTimes whole;                                     // the pass, on the host's clock, with a synchronization per run
  std::optional<PhaseTimes> forward, backward, update;  // on CUDA from events; update: with norm if clipped or fp16
  double loss = 0;                                      // loss of the last step, to check that it is finite
  // fp16: number of timed steps, and of timed update phases, whose gradient overflowed. Such steps update nothing, so
  // their times are not representative of training.
  std::int64_t skipped = 0, skipped_updates = 0;
};

// Returns random tokens for the case's batch, determined by the seed.
std::vector<std::int32_t> bench_tokens(const BenchCase& one, std::uint64_t seed);

// Runs the pass that a case selects, on its own model and random tokens.
class PassRun {
 public:
  enum class Parameters { drawn, zero };  // zero is faster, for measurements of memory

  // Throws Error(out_of_memory) with the bytes requested and free; on the CPU before any allocation.
  explicit PassRun(const BenchCase& one, Parameters parameters = Parameters::drawn);
  double run();  // returns the loss
  Model& model() { return model_; }

 private:
  BenchCase one_;
  Model model_;
  std::vector<std::int32_t> tokens_, targets_;
  std::int64_t step_ = 0;
};

// Times the case's steps. Calls after_run passes_of() times. Throws Error(out_of_memory) with the bytes requested and
// free.
BenchTimes time_step(const BenchCase& one, const std::function<void(double seconds)>& after_run = {});

// Returns the number of calls of after_run: one per warm-up or timed run. For a pass other than forward the number is
// doubled, because all runs are repeated phase by phase.
std::int64_t passes_of(const BenchCase& one);

}  // namespace strobe::lm
