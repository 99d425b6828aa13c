// One row of results: an implementation on a case. Written as JSON for `--output` and sweeps, as a table for people.
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
  Case one;
  std::string implementation;
  std::string kernel;
  std::string configuration;
  Status status = Status::ok;
  std::string reason;              // if the status is not ok
  Series forward, backward, both;  // empty if not timed
  std::optional<std::int64_t> peak_bytes;
  std::optional<std::int64_t> saved_bytes;      // saved for backward
  std::optional<std::int64_t> driver_bytes;     // on a GPU: decrease of its free memory, see run_case
  std::optional<std::int64_t> predicted_bytes;  // before the run
  std::optional<std::int64_t> asked, free;      // bytes, if out of memory
  std::optional<GateResult> gate;               // absent with --check=off
  std::int64_t gate_rows = 0, gate_keys = 0;

  Series& series(Region region) {
    return region == Region::forward ? forward : region == Region::backward ? backward : both;
  }
  const Series& series(Region region) const { return const_cast<Row*>(this)->series(region); }
};

// Data that all rows of a run share.
struct RunRecord {
  Json environment;
  std::string command;  // reproduces the run
};

// Returns a row in the schema of the source reports (forward, backward, forward_backward, peak_memory_usage(MB)) with
// further keys.
Json row_json(const Row& row, const RunRecord& record);

// Mean seconds of a region; forward_backward is the sum of the two. Empty if not timed.
std::optional<double> mean_seconds(const Row& row, Region region);

// Nominal FLOP/s at the mean; empty if not timed.
std::optional<double> flop_rate(const Row& row, Region region);

// Timing samples in the JSON schema of result rows.

// Statistics of the samples (seconds), then the samples. Requires at least one sample.
Json samples_json(const std::vector<double>& samples);

// Formats rows for people: the table and the notes that `strobe bench` prints.

// One line per row; medians. Ratios are against the first torch peer that ran, else the first row that ran. Above 1
// means faster.
std::string rows_table(std::span<const Row> rows, const Ceilings& ceilings);

// Notes for the reader: rows without times, intervals that were not reached.
std::vector<std::string> notes_on(std::span<const Row> rows, const StoppingRule& rule);

}  // namespace strobe::bench
