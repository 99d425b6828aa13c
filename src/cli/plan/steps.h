// Reads measurements for comparison with a plan: training steps from rows of `strobe lm bench`, with and without --ddp,
// and collectives from rows of `strobe comm`.
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
#include "results/each_row.h"
#include "results/ranges.h"

namespace strobe::cli {

struct PhaseSeconds {
  std::optional<double> forward, backward, update;  // nullopt: not timed
};

struct MeasuredStep {
  std::string title;          // "small, context 512, batch 4, fp32"; with --ddp also ", bucketed of 25 MB, 2 ranks"
  lm::SharedStep shared;      // each rank is a device with its share of the batch
  std::size_t workspace = 0;  // predicted workspace of an operation, if `bytes` is set
  PhaseSeconds phases{};
  std::optional<double> whole{};    // seconds of a step
  std::optional<double> exposed{};  // seconds of the exchange that do not overlap with backward
  std::optional<double> bytes{};    // memory of a process on a CPU: without --ddp the peak, with --ddp after a step
  lm::Start start = lm::Start::when_ready;  // when the gradient exchange starts
  std::optional<double> bucket_bytes{};     // bytes of gradients per call; nullopt: nothing was exchanged
};

// Returns true if measured_step() accepts the row.
bool is_step(const Json& row);

// Converts a row. Throws Error(invalid_argument) for a row that this program did not write.
MeasuredStep measured_step(const Json& row);

// Rates of the measured rows in one precision. Rows of several ranks are not used, because ranks share the memory
// bandwidth.
struct StepRates {
  std::vector<double> flops;   // FLOP/s of forward plus backward in rows without recomputation
  std::vector<double> update;  // bytes/s of the update; bytes by lm::update_bytes()
};

// Throws Error(invalid_argument) if no row without recomputation has times of forward and backward.
StepRates step_rates(const std::string& path, lm::Precision precision);

// Returns row[key]. Throws Error(invalid_argument) if it is not a number in the range.
double figure_in(const Json& row, const char* key, const Range& range);

// Returns true if row[key] is the text `value`.
bool says(const Json& row, const char* key, std::string_view value);

// Returns the median seconds of "forward", "whole" and so on in a row of `strobe lm bench`; nullopt if it was not
// timed.
std::optional<double> seconds_of(const Json& row, const char* phase);

bool is_collective(const Json& row);

// Converts a row of `strobe comm`. Returns nullopt for a row without times or of an operation that plans do not use.
std::optional<lm::LinkSample> link_sample(const Json& row);

// Returns the samples in a file with `ranks` ranks, or with the largest number of ranks in the file. Throws
// Error(invalid_argument) if there are none, or if they mix engines, or host and GPU memory.
std::vector<lm::LinkSample> link_samples(const std::string& path, std::optional<std::int64_t> ranks);

}  // namespace strobe::cli
