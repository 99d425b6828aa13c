// A row has the results of one implementation on one case. Rows are written as JSON for `--output` and sweeps, and
// printed as a table by `strobe bench`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/ceilings.h"
#include "bench/gate.h"
#include "bench/implementation.h"
#include "core/json.h"
#include "core/statistics.h"
#include "measure/stopping_rule.h"

namespace strobe::bench {

// Samples of one region, in seconds, in chronological order.
struct Series {
  std::vector<double> samples;
  Stop stop = Stop::not_yet;
};

struct Row {
  AttentionCase one;
  std::string implementation;
  std::string kernel;
  std::string configuration;
  Status status = Status::ok;
  std::string reason;              // error message if the status is not ok
  Series forward, backward, both;  // empty if not timed
  std::optional<std::int64_t> peak_bytes;
  std::optional<std::int64_t> saved_bytes;      // saved for backward
  std::optional<std::int64_t> driver_bytes;     // GPU: decrease of its free memory, see run_case
  std::optional<std::int64_t> predicted_bytes;  // before the run
  std::optional<std::int64_t> asked, free;      // requested and free bytes, if out of memory
  std::optional<GateResult> gate;               // absent with --check=off
  std::int64_t gate_rows = 0, gate_keys = 0;
  bool checked_without_dropout = false;  // the gate compared a run without dropout

  Series& series(Region region) {
    return region == Region::forward ? forward : region == Region::backward ? backward : both;
  }
  const Series& series(Region region) const { return const_cast<Row*>(this)->series(region); }
};

// Data that all rows of a run share.
struct RunRecord {
  Json environment;
  std::string command;  // command line that reproduces the run
};

// Returns a row as JSON. It has the keys of the reports that this benchmark reproduces (forward, backward,
// forward_backward, peak_memory_usage(MB)) and further ones.
Json row_json(const Row& row, const RunRecord& record);

// Mean seconds of a region; for Region::both the sum of the means of forward and backward. Empty if not timed.
std::optional<double> mean_seconds(const Row& row, Region region);

// Nominal FLOPs divided by mean_seconds(); empty if not timed.
std::optional<double> flop_rate(const Row& row, Region region);

// Timing samples in the JSON schema of result rows:

// Returns statistics of the samples and the samples, in seconds. Requires at least one sample.
Json samples_json(const std::vector<double>& samples);

// The table and the notes that `strobe bench` prints:

// One line per row, with medians. Ratios compare with the first peer whose status is ok, else with the first row whose
// status is ok. A ratio above 1 means faster than that row.
std::string rows_table(std::span<const Row> rows, const Ceilings& ceilings);

// Returns notes on rows without times and on confidence intervals that are wider than the stopping rule requires.
std::vector<std::string> notes_on(std::span<const Row> rows, const StoppingRule& rule);

}  // namespace strobe::bench
