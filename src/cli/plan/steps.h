// Training steps that were measured, as a plan describes them: rows of `strobe lm bench`, with --ddp and without.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "lm/data_parallel/strategy.h"
#include "lm/plan/device_memory.h"
#include "lm/plan/machine.h"
#include "report/each_row.h"
#include "report/ranges.h"

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

// Gives `take` each row of the files of `strobe comm` (rows) and of `strobe lm bench` (one object that has them). What
// it throws becomes Error(invalid_argument) with file, line and row.
void each_result(const std::string& path, const report::TakeRow& take);

// Throws Error(invalid_argument) if the row's figure is not a number in the range.
double figure_in(const Json& row, const char* key, const report::Range& range);

bool says(const Json& row, const char* key, std::string_view value);  // an object that says so

// The median of "forward", "whole" and so on of a row of `strobe lm bench`; none where it was not timed.
std::optional<double> seconds_of(const Json& row, const char* phase);

bool is_collective(const Json& row);

// Of a row of `strobe comm` with times of an operation that a plan has; none of others.
std::optional<lm::LinkSample> link_sample(const Json& row);

// Those of a file of so many ranks, or of the most that there are. Throws Error(invalid_argument) where there are none,
// or of more than one engine and memory.
std::vector<lm::LinkSample> link_samples(const std::string& path, std::optional<std::int64_t> ranks);

}  // namespace strobe::cli
