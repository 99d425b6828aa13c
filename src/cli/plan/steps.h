// Measured training steps in the terms of a plan: rows of `strobe lm bench`, with and without --ddp.
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
  std::string title;      // "small, context 512, batch 4, fp32", followed with --ddp by ", bucketed of 25 MB, 2 ranks"
  lm::SharedStep shared;  // each rank is a device with its share of the batch
  std::size_t workspace = 0;  // predicted workspace of an operation, if `bytes` is set
  PhaseSeconds phases{};
  std::optional<double> whole{};    // seconds of a step
  std::optional<double> exposed{};  // seconds of calls after backward
  std::optional<double> bytes{};    // memory of a process on a CPU: without --ddp the peak, with --ddp after a step
  lm::Start start = lm::Start::when_ready;  // when the exchange starts
  std::optional<double> bucket_bytes{};     // bytes of gradients per call; none: nothing was exchanged
};

// True if measured_step accepts this row.
bool is_step(const Json& row);

// Throws Error(invalid_argument) for a row that this program did not write.
MeasuredStep measured_step(const Json& row);

// Rates from each row in the given precision. With --ddp only the row `one process` counts: it has the cores of a rank
// and all memory bandwidth.
struct StepRates {
  std::vector<double> flops;   // FLOP/s of forward plus backward in rows without recomputation
  std::vector<double> update;  // bytes per second, by lm::update_bytes
};

// Throws Error(invalid_argument) if no row without recomputation has times of forward and backward.
StepRates step_rates(const std::string& path, lm::Precision precision);

// Passes each row of a file of `strobe comm` (rows) or `strobe lm bench` (one object with rows) to `take`. Converts
// errors that `take` throws to Error(invalid_argument) with file, line and row.
void each_result(const std::string& path, const report::TakeRow& take);

// Throws Error(invalid_argument) if the row's figure is not a number in the range.
double figure_in(const Json& row, const char* key, const report::Range& range);

bool says(const Json& row, const char* key, std::string_view value);  // false if the row is not an object

// Median seconds of "forward", "whole" and so on in a row of `strobe lm bench`; none if the phase was not timed.
std::optional<double> seconds_of(const Json& row, const char* phase);

bool is_collective(const Json& row);

// The sample of a row of `strobe comm` with times of an operation that plans use; none for other rows.
std::optional<lm::LinkSample> link_sample(const Json& row);

// The samples of a file for `ranks` ranks, or for the largest number in the file. Throws Error(invalid_argument) if
// there are none, or if they mix engines or memories.
std::vector<lm::LinkSample> link_samples(const std::string& path, std::optional<std::int64_t> ranks);

}  // namespace strobe::cli
