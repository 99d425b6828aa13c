// Groups rows into cells and computes a cell's statistics over its launches.
#include "report/cells.h"

#include <algorithm>
#include <map>

#include "core/statistics.h"

namespace strobe::report {
namespace {

std::optional<double> median_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

// Returns the median of `value_of` over launches; launches without a value are ignored.
std::optional<double> over_launches(const Cell& cell, auto&& value_of) {
  std::vector<double> values;
  for (const Result& launch : cell.launches) {
    if (const std::optional<double> value = value_of(launch)) values.push_back(*value);
  }
  return median_of(std::move(values));
}

const std::optional<Timing>& timing_of(const Result& launch, Pass pass) {
  return pass == Pass::forward ? launch.forward : pass == Pass::backward ? launch.backward : launch.step;
}

double seconds_of(const Timing& timing, Estimate estimate) {
  if (estimate == Estimate::median || timing.samples.empty()) return timing.median;
  return *std::ranges::min_element(timing.samples);
}

std::optional<double> pass_flops(const Cell& cell, Pass pass) {
  return over_launches(cell, [&](const Result& launch) -> std::optional<double> {
    const std::optional<Timing>& timing = timing_of(launch, pass);
    if (!timing || timing->flop_rate <= 0) return std::nullopt;
    return timing->flops();
  });
}

std::optional<double> max_over_launches(const Cell& cell, std::optional<double> Result::*megabytes) {
  std::optional<double> most;
  for (const Result& launch : cell.launches) most = std::max(most, launch.*megabytes);
  return most;
}

}  // namespace

std::optional<double> Cell::seconds(Pass pass, Estimate estimate) const {
  if (pass == Pass::total) {
    const std::optional<double> forward = seconds(Pass::forward, estimate);
    const std::optional<double> backward = seconds(Pass::backward, estimate);
    return forward && backward ? std::optional(*forward + *backward) : std::nullopt;
  }
  return over_launches(*this, [&](const Result& launch) -> std::optional<double> {
    const std::optional<Timing>& timing = timing_of(launch, pass);
    return timing ? std::optional(seconds_of(*timing, estimate)) : std::nullopt;
  });
}

std::optional<Interval> Cell::interval(Pass pass) const {
  if (pass == Pass::total) {
    const std::optional<Interval> forward = interval(Pass::forward), backward = interval(Pass::backward);
    if (!forward || !backward) return std::nullopt;
    return Interval{forward->low + backward->low, forward->high + backward->high};
  }
  std::optional<Interval> whole;
  for (const Result& launch : launches) {
    const std::optional<Timing>& timing = timing_of(launch, pass);
    if (!timing) continue;
    if (!whole) whole = Interval{timing->low, timing->high};
    whole->low = std::min(whole->low, timing->low);
    whole->high = std::max(whole->high, timing->high);
  }
  return whole;
}

std::optional<double> Cell::flop_rate(Pass pass, Estimate estimate) const {
  const std::optional<double> time = seconds(pass, estimate);
  if (!time) return std::nullopt;
  std::optional<double> flops = pass_flops(*this, pass == Pass::total ? Pass::forward : pass);
  if (pass == Pass::total && flops) {
    const std::optional<double> backward = pass_flops(*this, Pass::backward);
    flops = backward ? std::optional(*flops + *backward) : std::nullopt;
  }
  return flops ? std::optional(*flops / *time) : std::nullopt;
}

std::optional<double> Cell::peak_mb() const { return max_over_launches(*this, &Result::peak_mb); }
std::optional<double> Cell::saved_mb() const { return max_over_launches(*this, &Result::saved_mb); }

std::optional<double> Cell::predicted_mb() const {
  return over_launches(*this, [](const Result& launch) { return launch.predicted_mb; });
}

std::size_t Cell::samples() const {
  std::size_t count = 0;
  for (const Result& launch : launches) {
    const std::optional<Timing>& timing = launch.forward    ? launch.forward
                                          : launch.backward ? launch.backward
                                                            : launch.step;
    count += timing ? std::max<std::size_t>(1, timing->samples.size()) : 0;
  }
  return count;
}

double least_bytes(const Config& config, Pass pass) {
  const double element = config.dtype == "fp32" ? 4 : 2;
  // Floating point, because products of sizes may exceed 63 bits.
  const auto batch = static_cast<double>(config.batch);
  const double rows = batch * static_cast<double>(config.heads) * static_cast<double>(config.seqlen_q);
  const double keys = batch * static_cast<double>(config.kv_heads) * static_cast<double>(config.seqlen_k);
  const double q = rows * static_cast<double>(config.head_dim) * element;
  const double kv = 2 * keys * static_cast<double>(config.head_dim) * element, lse = 4 * rows;
  const double forward = 2 * q + kv + lse, backward = 4 * q + 2 * kv + lse;
  return pass == Pass::forward ? forward : pass == Pass::backward ? backward : forward + backward;
}

std::vector<Cell> cells_of(std::vector<Result> results) {
  std::vector<Cell> cells;
  std::map<std::string, std::size_t> known;  // identity -> index
  for (Result& result : results) {
    const Run run{result.machine, result.config.device, result.revision, result.config.threads};
    const std::string identity =
        result.config.identity + '\n' + result.implementation + '\n' + run.machine + '\n' + run.revision;
    const auto [place, is_new] = known.emplace(identity, cells.size());
    if (is_new) {
      cells.push_back({.config = result.config,
                       .implementation = result.implementation,
                       .kernel = result.kernel,
                       .run = run,
                       .status = result.status,
                       .reason = result.reason,
                       .date = result.date,
                       .launches = {}});
    }
    Cell& cell = cells[place->second];
    cell.date = std::max(cell.date, result.date);
    if (cell.status != "ok") {  // the status of the first successful launch, else of the last launch
      cell.status = result.status;
      cell.reason = result.reason;
    }
    if (result.status == "ok") cell.launches.push_back(std::move(result));
  }
  return cells;
}

}  // namespace strobe::report
