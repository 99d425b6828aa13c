// Converts rows to JSON and to tables.
#include "bench/row.h"

#include <fmt/format.h>

#include "core/statistics.h"
#include "results/schema.h"

namespace strobe::bench {
namespace {

constexpr double kMegabyte = 1 << 20;

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json bytes_json(const std::optional<std::int64_t>& bytes) { return bytes ? Json(*bytes) : Json(); }

double region_flops(const AttentionCase& one, Region region) {
  switch (region) {
    case Region::forward: return forward_flops(one);
    case Region::backward: return backward_flops(one);
    case Region::both: return forward_flops(one) + backward_flops(one);
  }
  return 0;
}

Json region_json(const Row& row, Region region) {
  const std::optional<double> rate = flop_rate(row, region);
  return Json::object(
      {{"time(s)", number(mean_seconds(row, region))}, {"FLOPS(TFLOPs/s)", rate ? Json(*rate * 1e-12) : Json()}});
}

Json series_json(const Series& series) {
  if (series.samples.empty()) return nullptr;
  Json json = samples_json(series.samples);
  json.set("stopped_by", name_of(series.stop));
  return json;
}

Json gate_json(const Row& row) {
  if (!row.gate) return "off";
  Json errors = Json::object();
  for (const Comparison& one : row.gate->comparisons) {
    errors.set(one.tensor, Json::object({{"error", one.error}, {"limit", one.limit}, {"values", one.values}}));
  }
  const char* against = row.checked_without_dropout ? "float64 without dropout" : "float64";
  return Json::object({{"against", against}, {"rows", row.gate_rows}, {"keys", row.gate_keys}, {"tensors", errors}});
}

const Row* find_reference(std::span<const Row> rows) {
  const Row* first = nullptr;
  for (const Row& row : rows) {
    if (row.status != Status::ok) continue;
    if (is_peer(row.implementation)) return &row;
    if (!first) first = &row;
  }
  return first;
}

std::optional<double> median_of(const Row& row, Region region) {
  const Series& series = row.series(region);
  if (series.samples.empty()) return std::nullopt;
  return summarize(series.samples).median;
}

std::optional<double> median_rate(const Row& row, Region region) {
  const std::optional<double> median = median_of(row, region);
  if (!median || *median <= 0) return std::nullopt;
  return (region == Region::forward ? forward_flops(row.one) : backward_flops(row.one)) / *median;
}

std::string milliseconds(double seconds) {
  const double ms = seconds * 1e3;
  return fmt::format("{:.{}f}", ms, ms < 1 ? 4 : ms < 100 ? 2 : 1);
}

std::string mebibytes(const std::optional<std::int64_t>& bytes) {
  return bytes ? fmt::format("{:.1f}", static_cast<double>(*bytes) / (1 << 20)) : "-";
}

std::string quotient(const std::optional<double>& top, const std::optional<double>& bottom, double factor,
                     const char* format) {
  return top && bottom && *bottom > 0 ? fmt::format(fmt::runtime(format), factor * *top / *bottom) : "-";
}

}  // namespace

std::optional<double> mean_seconds(const Row& row, Region region) {
  if (region == Region::both) {
    if (row.forward.samples.empty() || row.backward.samples.empty()) return std::nullopt;
    return summarize(row.forward.samples).mean + summarize(row.backward.samples).mean;
  }
  const Series& series = row.series(region);
  if (series.samples.empty()) return std::nullopt;
  return summarize(series.samples).mean;
}

std::optional<double> flop_rate(const Row& row, Region region) {
  const std::optional<double> seconds = mean_seconds(row, region);
  if (!seconds || *seconds <= 0) return std::nullopt;
  return region_flops(row.one, region) / *seconds;
}

Json row_json(const Row& row, const RunRecord& record) {
  Json json = Json::object();
  for (const Region region : kRegions) json.set(name_of(region), region_json(row, region));
  json.set("peak_memory_usage(MB)", row.peak_bytes ? Json(static_cast<double>(*row.peak_bytes) / kMegabyte) : Json());
  json.set(kVersionKey, kRowVersion);
  json.set("memory_before_backward_bytes", bytes_json(row.saved_bytes));
  json.set("driver_memory_bytes", bytes_json(row.driver_bytes));
  json.set("predicted_memory_bytes", bytes_json(row.predicted_bytes));
  json.set("status", name_of(row.status));
  if (!row.reason.empty()) json.set("reason", row.reason);
  if (row.asked) json.set("asked_bytes", *row.asked);
  if (row.free) json.set("free_bytes", *row.free);
  json.set("implementation", row.implementation);
  json.set("kernel", row.kernel);
  json.set("configuration", row.configuration);
  json.set("config", config_json(row.one));
  Json statistics = Json::object();
  for (const Region region : kRegions) statistics.set(name_of(region), series_json(row.series(region)));
  json.set("statistics", statistics);
  json.set("check", row.status == Status::ok ? gate_json(row) : Json());
  json.set("environment", record.environment);
  json.set("command", record.command);
  return json;
}

Json samples_json(const std::vector<double>& samples) {
  return summary_json(summarize(samples)).set("samples_s", Json::array({samples.begin(), samples.end()}));
}

std::string rows_table(std::span<const Row> rows, const Ceilings& ceilings) {
  const Row* reference = find_reference(rows);
  const bool on_gpu = !rows.empty() && rows[0].one.device == Device::cuda;
  const char* unit = on_gpu ? "TFLOP/s" : "GFLOP/s";
  Table table{.columns = {left("implementation"), "forward ms", "min", unit, "backward ms", "min", unit, "peak MiB"}};
  if (on_gpu) table.columns.emplace_back("driver MiB");
  table.columns.insert(table.columns.end(), {"saved MiB", reference ? "vs " + reference->implementation : "ratio",
                                             "of matmul rate", left("kernel")});
  for (const Row& row : rows) {
    std::vector<std::string> cells{row.implementation};
    if (row.status != Status::ok) {
      cells.push_back(name_of(row.status));
      table.cells.push_back(std::move(cells));
      continue;
    }
    std::vector<std::string> ratios;
    std::vector<std::string> shares;
    for (const Region region : {Region::forward, Region::backward}) {
      const std::optional<double> median = median_of(row, region);
      const std::optional<double> rate = median_rate(row, region);
      cells.push_back(median ? milliseconds(*median) : "-");
      cells.push_back(median ? milliseconds(summarize(row.series(region).samples).min) : "-");
      cells.push_back(rate ? fmt::format("{:.1f}", *rate * (on_gpu ? 1e-12 : 1e-9)) : "-");
      ratios.push_back(quotient(median_of(*reference, region), median, 1, "{:.2f}"));
      shares.push_back(quotient(rate, ceilings.matmul(row.one.dtype), 100, "{:.0f} %"));
    }
    cells.push_back(mebibytes(row.peak_bytes));
    if (on_gpu) cells.push_back(mebibytes(row.driver_bytes));
    cells.push_back(mebibytes(row.saved_bytes));
    cells.push_back(fmt::format("{}", fmt::join(ratios, " / ")));
    cells.push_back(fmt::format("{}", fmt::join(shares, " / ")));
    cells.push_back(row.configuration.empty() ? row.kernel : row.configuration);
    table.cells.push_back(std::move(cells));
  }
  return table.text();
}

std::vector<std::string> notes_on(std::span<const Row> rows, const StoppingRule& rule) {
  std::vector<std::string> notes;
  std::vector<std::string> wide;
  for (const Row& row : rows) {
    if (row.status != Status::ok) {
      notes.push_back(fmt::format("{}: {}", name_of(row.status), row.reason));
      continue;
    }
    for (const Region region : {Region::forward, Region::backward}) {
      const Series& series = row.series(region);
      const Summary summary = summarize(series.samples);
      const double width = summary.relative_half_width();
      if (series.stop == Stop::time_limit ? width <= rule.interval : width <= 0.05) continue;
      wide.push_back(fmt::format("{} {} {:.1f} % (n {})", row.implementation, name_of(region), 100 * width, summary.n));
    }
  }
  if (!wide.empty()) {
    const std::string advice = rule.repeats > 0 ? fmt::format("--repeats {}", 4 * rule.repeats)
                                                : fmt::format("--time-limit {:g}", 4 * rule.time_limit);
    notes.push_back(fmt::format("95 % interval wider than {:.0f} %: {}; {} or a less loaded machine narrows it",
                                100 * rule.interval, fmt::join(wide, ", "), advice));
  }
  return notes;
}

}  // namespace strobe::bench
