// Training steps that were measured, as a plan describes them: rows of `strobe lm bench`, with --ddp and without.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "lm/data_parallel/strategy.h"
#include "lm/plan/device_memory.h"

namespace strobe::cli {

struct PhaseSeconds {
  std::optional<double> forward, backward, update;  // none: not timed
};

struct MeasuredStep {
  std::string title;          // "small, context 512, batch 4, fp32", with --ddp ", bucketed of 25 MB, 2 ranks" after it
  lm::SharedStep shared;      // every rank a device, with its share of the batch
  std::size_t workspace = 0;  // of an operation, by the formulas, where it is in bytes
  PhaseSeconds phases{};
  std::optional<double> whole{};            // seconds of a step
  std::optional<double> exposed{};          // seconds of calls after backward
  std::optional<double> bytes{};            // that a process held on a CPU: without --ddp at most, with it after a step
  lm::Start start = lm::Start::when_ready;  // of the exchange
  std::optional<double> bucket_bytes{};     // of gradients that a call took; none: nothing was exchanged
};

// Whether measured_step is for this row.
bool is_step(const Json& row);

// Throws Error(invalid_argument) for a row that is none that the program wrote.
MeasuredStep measured_step(const Json& row);

// Of each row in a precision that has them. Of rows with --ddp that of one process alone: the rate of a rank's cores
// with all the memory to themselves.
struct StepRates {
  std::vector<double> flops;   // FLOP/s of forward and backward together, where nothing is recomputed
  std::vector<double> update;  // bytes a second, by lm::update_bytes
};

// Throws Error(invalid_argument) where no row has a forward and a backward that recompute nothing.
StepRates step_rates(const std::string& path, lm::Precision precision);

}  // namespace strobe::cli
