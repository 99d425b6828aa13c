// Formats medians, minima, rates, ratios and shares of one case.
#include "bench/table.h"

#include <fmt/format.h>

#include "core/text_table.h"

namespace strobe::bench {
namespace {

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

std::string rows_table(std::span<const Row> rows, const Ceilings& ceilings) {
  const Row* reference = find_reference(rows);
  const bool on_gpu = !rows.empty() && rows[0].one.device == Device::cuda;
  const char* unit = on_gpu ? "TFLOP/s" : "GFLOP/s";
  TextTable table;
  table.add_column("implementation", TextTable::Align::left);
  table.add_column("forward ms");
  table.add_column("min");
  table.add_column(unit);
  table.add_column("backward ms");
  table.add_column("min");
  table.add_column(unit);
  table.add_column("peak MiB");
  if (on_gpu) table.add_column("driver MiB");
  table.add_column("saved MiB");
  table.add_column(reference ? "vs " + reference->implementation : "ratio");
  table.add_column("of matmul rate");
  table.add_column("kernel", TextTable::Align::left);
  for (const Row& row : rows) {
    std::vector<std::string> cells{row.implementation};
    if (row.status != Status::ok) {
      cells.push_back(name_of(row.status));
      table.add_row(std::move(cells));
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
    table.add_row(std::move(cells));
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
