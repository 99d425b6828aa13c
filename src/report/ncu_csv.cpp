// Parses ncu's raw page: messages of ncu that begin with "==", then a row of names, a row of units and one row per
// launch. Shared memory rates count 128 bytes per wavefront. Bank conflicts add wavefronts, so these rates are the
// throughput of the memory and may exceed what the program requested.
#include "report/ncu_csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "core/fail.h"
#include "core/printable.h"
#include "results/ranges.h"

namespace strobe::report {
namespace {

constexpr const char* kTime = "gpu__time_duration.sum";
constexpr const char* kOccupancy = "sm__warps_active.avg.pct_of_peak_sustained_active";
constexpr const char* kActive = "smsp__cycles_active.avg.pct_of_peak_sustained_elapsed";
constexpr const char* kGlobalLoad = "l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum.per_second";
constexpr const char* kGlobalStore = "l1tex__t_bytes_pipe_lsu_mem_global_op_st.sum.per_second";
constexpr const char* kSharedLoad = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum";
constexpr const char* kSharedStore = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum";
constexpr const char* kConflicts = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum";
constexpr const char* kThreads = "smsp__thread_inst_executed_per_inst_executed.ratio";
constexpr const char* kAdds = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum";
constexpr const char* kMultiplies = "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum";
constexpr const char* kFused = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";

constexpr const char* kAllMetrics[] = {kTime,        kOccupancy, kActive,  kGlobalLoad, kGlobalStore, kSharedLoad,
                                       kSharedStore, kConflicts, kThreads, kAdds,       kMultiplies,  kFused};
constexpr std::string_view kErrorMark = "==ERROR==";
constexpr Range kMetricRange{1e-15, 1e18, true, "in seconds, bytes or counts"};

constexpr double kWavefrontBytes = 128;
constexpr int kWarp = 32;

std::vector<std::string> split_line(std::string_view line) {
  std::vector<std::string> cells{""};
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"')
      cells.back() += line[++i];
    else if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      cells.emplace_back();
    else if (c != '\r')
      cells.back() += c;
  }
  return cells;
}

// Parses a number such as "1,234.5"; empty for "", "n/a", "nan" and "inf".
std::optional<double> parse_value(std::string text) {
  std::erase(text, ',');
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

// Returns the factor that converts a unit to seconds, bytes or bytes per second. ncu chooses the unit's prefix by the
// size of the value.
double factor_of(std::string_view unit) {
  static const std::map<std::string_view, double> kTimes = {{"nsecond", 1e-9}, {"ns", 1e-9},      {"usecond", 1e-6},
                                                            {"us", 1e-6},      {"msecond", 1e-3}, {"ms", 1e-3}};
  if (const auto found = kTimes.find(unit); found != kTimes.end()) return found->second;
  if (unit.find("byte") == std::string_view::npos) return 1;
  switch (unit.front()) {
    case 'K': return 1e3;
    case 'M': return 1e6;
    case 'G': return 1e9;
    case 'T': return 1e12;
    default: return 1;
  }
}

bool is_counted(std::string_view name) {
  return std::find(std::begin(kAllMetrics), std::end(kAllMetrics), name) != std::end(kAllMetrics);
}

using Metrics = std::map<std::string, double, std::less<>>;  // metric -> value in base units

// The table of one ncu run: a line of names, a line of units, and one line per kernel launch.
class LaunchReader {
 public:
  void take(std::string_view line) {
    ++line_;
    if (line.starts_with(kErrorMark) && reason_.empty()) {
      const std::size_t text = line.find_first_not_of(' ', kErrorMark.size());
      reason_ = text == std::string_view::npos ? "failed without an error message" : printable(line.substr(text), 200);
    }
    if (line.starts_with("\"ID\"")) {
      names_ = split_line(line);
      units_.clear();
    } else if (!names_.empty() && line.starts_with('"')) {
      take_cells(split_line(line), line);
    }
  }

  std::vector<Metrics> launches() {
    if (launches_.empty()) {
      fail(ErrorCode::invalid_argument, "ncu: {}", reason_.empty() ? "its output has no table of counters" : reason_);
    }
    return std::move(launches_);
  }

 private:
  void take_cells(std::vector<std::string> cells, std::string_view line) {
    if (cells.size() != names_.size())
      fail(ErrorCode::invalid_argument, "ncu: line {}: the row has {} cells, but there are {} names: {}", line_,
           cells.size(), names_.size(), printable_value(line));
    if (units_.empty() && cells.front().empty()) {
      units_ = std::move(cells);
      return;
    }
    Metrics launch;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::optional<double> value = parse_value(cells[i]);
      if (!value || !is_counted(names_[i])) continue;
      const double scaled = *value * (units_.empty() ? 1 : factor_of(units_[i]));
      if (!holds(kMetricRange, scaled))
        fail(ErrorCode::invalid_argument, "ncu: line {}: {} is {}; valid: {}", line_, printable(names_[i]),
             printable_value(cells[i]), range_text(kMetricRange));
      launch[names_[i]] = scaled;
    }
    launches_.push_back(std::move(launch));
  }

  std::size_t line_ = 0;
  std::vector<std::string> names_, units_;
  std::vector<Metrics> launches_;
  std::string reason_;
};

std::vector<Metrics> read_launches(std::string_view text) {
  LaunchReader reader;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    reader.take(line);
  }
  return reader.launches();
}

// Returns the sum over all launches; empty if a launch lacks the metric.
std::optional<double> sum(const std::vector<Metrics>& launches, const char* metric) {
  double total = 0;
  for (const Metrics& launch : launches) {
    const auto found = launch.find(metric);
    if (found == launch.end()) return std::nullopt;
    total += found->second;
  }
  return total;
}

std::optional<double> mean_over_time(const std::vector<Metrics>& launches, const char* metric) {
  double weighted = 0;
  for (const Metrics& launch : launches) {
    const auto value = launch.find(metric), time = launch.find(kTime);
    if (value == launch.end() || time == launch.end()) return std::nullopt;
    weighted += value->second * time->second;
  }
  const std::optional<double> seconds = sum(launches, kTime);
  return seconds && *seconds > 0 ? std::optional(weighted / *seconds) : std::nullopt;
}

std::optional<double> scaled(std::optional<double> value, double factor) {
  return value ? std::optional(*value * factor) : std::nullopt;
}

std::optional<double> per_second(const std::optional<double>& amount, const std::optional<double>& seconds) {
  return amount && seconds && *seconds > 0 ? std::optional(*amount / *seconds) : std::nullopt;
}

}  // namespace

std::span<const Counter> counters() {
  static constexpr Counter kCounters[] = {{"achieved_occupancy", "achieved occupancy", "%"},
                                          {"sm_efficiency", "SM efficiency", "%"},
                                          {"global_load", "global load", "GB/s"},
                                          {"global_store", "global store", "GB/s"},
                                          {"shared_load", "shared load", "GB/s"},
                                          {"shared_store", "shared store", "GB/s"},
                                          {"bank_conflicts", "bank conflicts", ""},
                                          {"warp_efficiency", "warp execution efficiency", "%"},
                                          {"gflops", "FP32 rate", "GFLOP/s"}};
  return kCounters;
}

std::string ncu_metrics() {
  std::string list;
  for (const char* metric : kAllMetrics) {
    list += (list.empty() ? "" : ",") + std::string(metric);
  }
  return list;
}

Json read_ncu_csv(std::string_view text) {
  const std::vector<Metrics> launches = read_launches(text);
  const std::optional<double> seconds = sum(launches, kTime);
  const std::optional<double> adds = sum(launches, kAdds), multiplies = sum(launches, kMultiplies),
                              fused = sum(launches, kFused);
  const std::optional<double> operations =
      adds && multiplies && fused ? std::optional(*adds + *multiplies + 2 * *fused) : std::nullopt;
  const std::map<std::string_view, std::optional<double>> values = {
      {"achieved_occupancy", mean_over_time(launches, kOccupancy)},
      {"sm_efficiency", mean_over_time(launches, kActive)},
      {"global_load", scaled(mean_over_time(launches, kGlobalLoad), 1e-9)},
      {"global_store", scaled(mean_over_time(launches, kGlobalStore), 1e-9)},
      {"shared_load", scaled(per_second(sum(launches, kSharedLoad), seconds), 1e-9 * kWavefrontBytes)},
      {"shared_store", scaled(per_second(sum(launches, kSharedStore), seconds), 1e-9 * kWavefrontBytes)},
      {"bank_conflicts", sum(launches, kConflicts)},
      {"warp_efficiency", scaled(mean_over_time(launches, kThreads), 100.0 / kWarp)},
      {"gflops", scaled(per_second(operations, seconds), 1e-9)}};
  Json all = Json::object();
  for (const Counter& counter : counters()) {
    const std::optional<double>& value = values.at(counter.key);
    all.set(counter.key, value ? Json(*value) : Json());
  }
  return Json::object({{"launches", launches.size()}, {"counters", all}});
}

}  // namespace strobe::report
