// One row of results: an implementation on a case. As JSON for `--output` and sweeps, as a table for people.
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

// Samples of one region, in seconds, in the order in which they were taken.
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
  std::string reason;              // where the status is not ok
  Series forward, backward, both;  // empty: not timed
  std::optional<std::int64_t> peak_bytes;
  std::optional<std::int64_t> kept_bytes;       // held between a forward and its backward
  std::optional<std::int64_t> driver_bytes;     // on a GPU: decrease of its free memory, see run_case
  std::optional<std::int64_t> predicted_bytes;  // before the run
  std::optional<std::int64_t> asked, free;      // bytes, where out of memory
  std::optional<GateResult> gate;               // absent: --check=off
  std::int64_t gate_rows = 0, gate_keys = 0;

  Series& series(Region region) {
    return region == Region::forward ? forward : region == Region::backward ? backward : both;
  }
  const Series& series(Region region) const { return const_cast<Row*>(this)->series(region); }
};

// What all rows of a run share.
struct RunRecord {
  Json environment;
  std::string command;  // repeats the run
};

// Exactly the shape of the source reports (forward, backward, forward_backward, peak_memory_usage(MB)), and
// everything else under further keys.
Json row_json(const Row& row, const RunRecord& record);

// Mean seconds of a region; forward_backward is the sum of the two. Empty where it was not timed.
std::optional<double> mean_seconds(const Row& row, Region region);

// Nominal FLOP/s at the mean, likewise.
std::optional<double> flop_rate(const Row& row, Region region);

// Times as rows of results hold them.

// Statistics of samples in seconds, then the samples themselves; at least one.
Json samples_json(const std::vector<double>& samples);

// Rows for people: the table and the notes that `strobe bench` prints.

// One line a row; medians. Ratios are against the first torch peer that ran, else against the first row that did;
// above 1 means faster than that.
std::string rows_table(std::span<const Row> rows, const Ceilings& ceilings);

// What the reader should know or do next: rows without times, intervals that were not reached.
std::vector<std::string> notes_on(std::span<const Row> rows, const StoppingRule& rule);

}  // namespace strobe::bench
