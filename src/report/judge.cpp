// Implements judge(): evaluates each requirement on the cells that it selects, and formats the verdicts as tables.
#include <algorithm>
#include <cmath>
#include <set>

#include "core/counted.h"
#include "core/fail.h"
#include "core/short_number.h"
#include "report/charts.h"
#include "report/measured_values.h"

namespace strobe::report {
namespace {

struct Value {
  Place at;
  double value = 0;
  double margin = 0;     // value / limit, or limit / value for an upper limit; for `show`, the value
  std::string reason{};  // why there is no value
  bool holds = false;
};

bool holds(const Bound& bound, double value) {
  const bool is_at = value == bound.limit && !bound.is_strict;
  return is_at || (bound.is_least ? value > bound.limit : value < bound.limit);
}

// Returns the value of the alternative with the largest margin, or the reason if none has a value. Returns nullopt if a
// reference ran out of memory and no alternative has a value.
std::optional<Value> value_at(const Requirement& requirement, const Place& at, const MeasuredValues& values) {
  Value found{.at = at};
  bool any = false, left_out = false;
  for (const Bound& bound : requirement.bounds) {
    const Measured figure = values.of(bound, at);
    left_out |= figure.is_left_out;
    if (!figure.value) {
      found.reason = figure.reason;
      continue;
    }
    const double margin = requirement.kind == Requirement::Kind::shown ? *figure.value
                          : bound.is_least                             ? *figure.value / bound.limit
                                                                       : bound.limit / *figure.value;
    if (!any || margin > found.margin) found.value = *figure.value, found.margin = margin;
    found.holds |= holds(bound, *figure.value);
    any = true;
  }
  if (any) found.reason.clear();
  if (!any && left_out) return std::nullopt;
  return found;
}

bool is_of_whole_cell(const Requirement& requirement) {
  const Measure measure = requirement.bounds.front().measure;
  return measure == Measure::peak_mb || measure == Measure::memory;
}

// Returns one place per pass that the requirement names, else per timed pass. For a limit on memory and for a failed
// cell, returns one place without a pass.
std::vector<Place> places_in(const Requirement& requirement, const Cell& cell) {
  if (is_of_whole_cell(requirement) || cell.status != "ok") return {{&cell, std::nullopt}};
  std::vector<Place> places;
  for (const Pass pass : requirement.passes) places.push_back({&cell, pass});
  if (!places.empty()) return places;
  for (const Pass pass : {Pass::forward, Pass::backward, Pass::step}) {
    if (cell.seconds(pass)) places.push_back({&cell, pass});
  }
  return places;
}

struct Finding {
  const Requirement* requirement;
  std::vector<Value> values{};
  std::size_t cells = 0, missed = 0;
  bool holds = true;

  double mean() const {
    double sum = 0;
    for (const Value& one : values) sum += std::log(one.value);
    return std::exp(sum / static_cast<double>(values.size()));
  }
  bool is_whole() const {
    return !values.empty() && std::ranges::all_of(values, [](const Value& one) { return one.reason.empty(); });
  }
};

Finding finding_of(const Requirement& requirement, std::span<const Cell> cells, const MeasuredValues& values) {
  Finding finding{.requirement = &requirement};
  for (const Cell& cell : cells) {
    if (!is_selected(requirement, cell)) continue;
    ++finding.cells;
    for (const Place& at : places_in(requirement, cell)) {
      if (std::optional<Value> value = value_at(requirement, at, values)) finding.values.push_back(std::move(*value));
    }
  }
  finding.missed = static_cast<std::size_t>(std::ranges::count(finding.values, false, &Value::holds));
  const auto count = static_cast<double>(finding.values.size());
  switch (requirement.kind) {
    case Requirement::Kind::shown: finding.missed = 0; break;
    case Requirement::Kind::each:
      finding.holds = count - static_cast<double>(finding.missed) >= requirement.share * count - 1e-9;
      break;
    case Requirement::Kind::mean:
      finding.holds = finding.values.empty() || (finding.is_whole() && holds(requirement.bounds[0], finding.mean()));
      break;
  }
  return finding;
}

std::string place_text(const Place& at) {
  return describe(at.cell->config) + (at.pass ? fmt::format(", {}", name_of(*at.pass)) : "");
}

std::string verdict_text(const Finding& finding) {
  if (finding.cells == 0) return "no cells";
  if (finding.requirement->kind == Requirement::Kind::shown) return "";
  if (finding.values.empty()) return "ok: the reference does not fit";
  if (finding.holds) return "ok";
  const auto is_missing = [](const Value& one) { return !one.reason.empty(); };
  if (const auto found = std::ranges::find_if(finding.values, is_missing); found != finding.values.end()) {
    return fmt::format("MISSED: {}: {}", place_text(found->at), found->reason);
  }
  if (finding.requirement->kind == Requirement::Kind::mean) return "MISSED";
  const Value& worst = *std::ranges::min_element(finding.values, {}, &Value::margin);
  return fmt::format("MISSED by {}, worst: {}", finding.missed, place_text(worst.at));
}

Table limits_table(const Limits& limits, const std::vector<Finding>& findings) {
  Table table{.title = limits.about.empty() ? "Limits" : "Limits: " + limits.about,
              .columns = {left("limit"), "values", "geomean", "worst", left("verdict")},
              .cells = {}};
  for (const Finding& finding : findings) {
    const Requirement& requirement = *finding.requirement;
    if (requirement.kind == Requirement::Kind::shown && finding.cells == 0) continue;
    const bool has_figures = finding.is_whole();
    const double worst = has_figures ? std::ranges::min_element(finding.values, {}, &Value::margin)->value : 0;
    table.cells.push_back({(requirement.cells_text.empty() ? "all" : requirement.cells_text) + ": " + requirement.text,
                           std::to_string(finding.values.size()), has_figures ? short_number(finding.mean()) : "-",
                           has_figures ? short_number(worst) : "-", verdict_text(finding)});
  }
  return table;
}

struct Column {
  std::string title;
  Bound bound;
};

// Returns one column per measure that occurs in the limits, except for ms, share:product and peak_mb, which always have
// columns.
std::vector<Column> columns_of(const Limits& limits) {
  std::vector<Column> columns;
  std::set<std::string> known;
  for (const Requirement& requirement : limits.requirements) {
    for (const Bound& bound : requirement.bounds) {
      const std::string title = bound.measure == Measure::speedup          ? "x " + bound.reference
                                : bound.measure == Measure::memory         ? "memory of " + bound.reference
                                : bound.measure == Measure::share_of_copy  ? "of copy"
                                : bound.measure == Measure::share_of_plain ? "of plain"
                                : bound.measure == Measure::change_low     ? "B / A from"
                                : bound.measure == Measure::change_high    ? "to"
                                                                           : "";
      if (!title.empty() && known.insert(title).second) columns.push_back({title, bound});
    }
  }
  return columns;
}

// Returns the verdict of each place, "ok" or "MISSED", from the limits on each value. If there is no value, "MISSED" is
// followed by the reason.
std::map<Place, std::string> place_verdicts(const std::vector<Finding>& findings) {
  std::map<Place, std::string> verdicts;
  for (const Finding& finding : findings) {
    if (finding.requirement->kind != Requirement::Kind::each) continue;
    for (const Value& one : finding.values) {
      std::string& verdict = verdicts[one.at];
      const std::string reason = one.reason.empty() ? "" : ": " + one.reason;
      if (!one.holds) verdict = "MISSED" + reason;
      if (verdict.empty()) verdict = "ok";
    }
  }
  return verdicts;
}

std::string figure_text(const std::optional<double>& value, double factor = 1) {
  return value ? short_number(*value * factor) : "-";
}

Table cells_table(const Limits& limits, const std::vector<Finding>& findings, std::span<const Cell> cells,
                  const MeasuredValues& values) {
  double largest = 0;
  for (const Cell& cell : cells) {
    for (const Pass pass : {Pass::forward, Pass::step}) largest = std::max(largest, cell.flop_rate(pass).value_or(0));
  }
  const RateUnit unit = rate_unit(largest);
  const std::vector<Column> columns = columns_of(limits);
  const Bound of_matmul{.measure = Measure::share_of_matmul_rate, .reference = {}};
  Table table{.title = "Cells", .columns = {left("cell"), "pass", "ms", unit.name, "of matmul"}, .cells = {}};
  for (const Column& column : columns) table.columns.push_back(column.title);
  table.columns.insert(table.columns.end(), {"peak MiB", left("verdict")});
  const std::map<Place, std::string> verdicts = place_verdicts(findings);
  const auto verdict_at = [&](const Place& at) {
    const auto found = verdicts.find(at);
    return found == verdicts.end() ? std::string() : found->second;
  };
  for (const Cell& cell : cells) {
    const bool has_limit =
        std::ranges::any_of(limits.requirements, [&](const auto& one) { return is_selected(one, cell); });
    if (!has_limit) continue;
    const std::string name = cell.implementation + ": " + describe(cell.config);
    std::size_t rows = 0;
    for (const Pass pass : {Pass::forward, Pass::backward, Pass::step}) {
      const Place at{&cell, pass};
      const std::optional<double> time = values.seconds(at);
      if (!time) continue;
      std::vector<std::string> row = {name, name_of(pass), fmt::format("{:.4f}", 1e3 * *time),
                                      figure_text(values.rate(at), unit.factor),
                                      figure_text(values.of(of_matmul, at).value)};
      for (const Column& column : columns) row.push_back(figure_text(values.of(column.bound, at).value));
      const std::string whole = verdict_at({&cell, std::nullopt}), own = verdict_at(at);
      row.insert(row.end(), {figure_text(cell.peak_mb()), whole.starts_with("MISSED") || own.empty() ? whole : own});
      table.cells.push_back(std::move(row));
      ++rows;
    }
    if (rows == 0) {
      std::vector<std::string> row(table.columns.size(), "-");
      row.front() = name, row[2] = cell.status, row.back() = verdict_at({&cell, std::nullopt});
      table.cells.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace

Judgement judge(const Limits& limits, std::span<const Cell> cells, const Comparison* comparison, Estimate estimate) {
  const MeasuredValues values(cells, comparison, estimate);
  std::vector<Finding> findings;
  std::size_t limited = 0;  // pairs of a limit and a cell
  for (const Requirement& requirement : limits.requirements) {
    findings.push_back(finding_of(requirement, cells, values));
    limited += findings.back().cells;
  }
  if (limited == 0)
    fail(ErrorCode::invalid_argument, "--require: no limit applies to any of the {}", counted(cells.size(), "cell"));
  Judgement judgement;
  judgement.tables = {cells_table(limits, findings, cells, values), limits_table(limits, findings)};
  judgement.limits = static_cast<std::size_t>(std::ranges::count_if(
      limits.requirements, [](const Requirement& one) { return one.kind != Requirement::Kind::shown; }));
  judgement.missed = static_cast<std::size_t>(std::ranges::count(findings, false, &Finding::holds));
  return judgement;
}

}  // namespace strobe::report
