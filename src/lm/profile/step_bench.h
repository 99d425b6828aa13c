// Times and memory of one model's training step, phase by phase. `strobe lm bench` calls.
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

// Seconds, and bytes that were held at most.
struct PhaseTimes {
  Summary seconds;
  std::size_t peak_bytes = 0;
};

struct BenchTimes {
  PhaseTimes whole;                                     // of the pass, by the clock of the host, waited for each time
  std::optional<PhaseTimes> forward, backward, update;  // on CUDA by events; update: with the norm where it clips
  double loss = 0;                                      // of the last step: that it is a number
  // fp16: of the steps, and of the updates as a phase, those whose gradient overflowed: they update nothing, and their
  // times are not those of training.
  std::int64_t skipped = 0, skipped_updates = 0;
};

// Of the case's batch, random by the seed alone.
std::vector<std::int32_t> bench_tokens(const BenchCase& one, std::uint64_t seed);

// A model, random tokens and the pass over them that the case asks for.
class PassRun {
 public:
  enum class Parameters { drawn, zero };  // times and losses depend on them, memory does not

  // Throws Error(out_of_memory) with the bytes asked for and free, on the CPU before anything is allocated.
  explicit PassRun(const BenchCase& one, Parameters parameters = Parameters::drawn);
  double run();  // the loss
  Model& model() { return model_; }

 private:
  BenchCase one_;
  Model model_;
  std::vector<std::int32_t> tokens_, targets_;
  std::int64_t step_ = 0;
};

// Throws Error(out_of_memory) with the bytes asked for and free. after_run is called passes_of times.
BenchTimes time_step(const BenchCase& one, const std::function<void(double seconds)>& after_run = {});

// That time_step runs: those that warm up and those that count, and again phase by phase where there are several.
std::int64_t passes_of(const BenchCase& one);

}  // namespace strobe::lm
