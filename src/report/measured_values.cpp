// Implements MeasuredValues: finds reference cells and computes the values.
#include "report/measured_values.h"

#include <algorithm>

#include "core/fail.h"

namespace strobe::report {
namespace {

// Configuration keys of window, score options, lengths and KV heads. The "plain cell" of a cell has these keys at their
// defaults, and all other keys in common with the cell.
constexpr std::string_view kFeatureKeys[] = {"window",        "align", "softcap", "alibi",   "bias",
                                             "bias_gradient", "sinks", "dropout", "lengths", "num_kv_heads"};

bool is_feature(std::string_view name) { return std::ranges::find(kFeatureKeys, name) != std::end(kFeatureKeys); }

// Converts a configuration value from JSON to the syntax of limits: "on", "3:-1", "bf16", "64"; "off" for a default.
std::string option_text(const std::string& json) {
  if (json == "true") return "on";
  const bool is_default = json == "false" || json == "null" || json == "0" || json == "[]" || json == "[-1,-1]" ||
                          json == "\"\"" || json == "\"unsaid\"";
  if (is_default) return "off";
  std::string text = json;
  std::erase_if(text, [](char c) { return c == '"' || c == '[' || c == ']' || c == ' '; });
  if (json[0] == '[') std::ranges::replace(text, ',', ':');
  return text;
}

bool in_list(std::string_view list, std::string_view value) {
  while (true) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == value) return true;
    if (end == list.size()) return false;
    list.remove_prefix(end + 1);
  }
}

// Returns a text of all other keys of the configuration: equal for a cell and its plain cell.
std::string plain_identity(const Config& config) {
  std::string identity = "plain ";
  for (const auto& [name, value] : config.members) {
    if (!is_feature(name)) identity += name + "=" + value + ";";
  }
  return identity;
}

bool is_plain(const Config& config) {
  return config.kv_heads == config.heads && std::ranges::all_of(config.members, [](const auto& member) {
           return !is_feature(member.first) || member.first == "num_kv_heads" || option_text(member.second) == "off";
         });
}

std::string key_of(const Cell& cell, const std::string& identity, const std::string& implementation) {
  return fmt::format("{}\n{}\n{}\n{}", identity, implementation, cell.run.machine, cell.run.revision);
}

std::string plain_key(const Cell& cell) { return key_of(cell, plain_identity(cell.config), cell.implementation); }

Measured times_factor(std::optional<double> value, double factor) {
  return value ? Measured{*value * factor} : Measured{{}, "not measured"};
}

Measured quotient(std::optional<double> above, std::optional<double> below) {
  if (!above || !below || *above <= 0 || *below <= 0) return {{}, "not measured"};
  return {*above / *below};
}

Measured share(std::optional<double> rate, const std::optional<double>& ceiling, const char* reason) {
  return ceiling.value_or(0) > 0 ? quotient(rate, ceiling) : Measured{{}, reason};
}

// Calls `use` with each name of a list.
template <class Use>
void for_each_name(std::string_view list, Use&& use) {
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    use(std::string(list.substr(begin, end - begin)));
    begin = end + 1;
  }
}

// Returns a Measured without value, with the reason why the reference cell is missing or has no times.
Measured without_reference(const Cell* other, const std::string& name) {
  if (!other) return {{}, name + " was not measured"};
  const std::string& reason = other->reason.empty() ? other->status : other->reason;
  return {{}, fmt::format("{}: {}", name, reason), other->status == "oom"};
}

}  // namespace

bool is_selected(const Requirement& requirement, const Cell& cell) {
  if (!requirement.implementation.empty() && requirement.implementation != cell.implementation) return false;
  return std::ranges::all_of(requirement.cells, [&](const CaseWord& word) {
    const auto& members = cell.config.members;
    const auto found = std::ranges::find(members, word.name, &std::pair<std::string, std::string>::first);
    const std::string value = found == members.end() ? "off" : option_text(found->second);
    return word.value == "on" ? value != "off" : in_list(word.value, value);
  });
}

MeasuredValues::MeasuredValues(std::span<const Cell> cells, const Comparison* comparison, Estimate estimate)
    : comparison_(comparison), estimate_(estimate) {
  for (const Cell& cell : cells) {
    by_key_.emplace(key_of(cell, cell.config.identity, cell.implementation), &cell);
    if (is_plain(cell.config)) by_key_.emplace(plain_key(cell), &cell);
  }
}

Measured MeasuredValues::of(const Bound& bound, const Place& at) const {
  const Cell& cell = *at.cell;
  if (cell.status != "ok") return {{}, cell.reason.empty() ? cell.status : cell.status + ": " + cell.reason};
  const Result& launch = cell.launches.back();
  switch (bound.measure) {
    case Measure::milliseconds: return times_factor(seconds(at), 1e3);
    case Measure::speedup:
    case Measure::memory: return against_best(bound, at);
    case Measure::share_of_matmul_rate: return share(rate(at), launch.matmul_rate, "no matmul rate");
    case Measure::share_of_copy: return share(byte_rate(at), launch.copy_rate, "no copy rate");
    case Measure::share_of_plain: return share_of_plain(at);
    case Measure::peak_mb: return times_factor(cell.peak_mb(), 1);
    case Measure::change_low: return change(at, &Ratio::low);
    case Measure::change_high: return change(at, &Ratio::high);
  }
  return {};
}

// Compares with the reference of the least time or memory. References without a value count only if no other has one.
Measured MeasuredValues::against_best(const Bound& bound, const Place& at) const {
  Measured best;
  for_each_name(bound.reference, [&](const std::string& name) {
    const Cell* const other = find_cell(key_of(*at.cell, at.cell->config.identity, name));
    const bool is_ok = other && other->status == "ok";
    const Measured found = !is_ok                              ? without_reference(other, name)
                           : bound.measure == Measure::speedup ? quotient(seconds({other, at.pass}), seconds(at))
                                                               : quotient(at.cell->peak_mb(), other->peak_mb());
    if (!found.value) {
      if (!best.value && best.reason.empty()) best = found;
      return;
    }
    const bool is_better =
        !best.value || (bound.measure == Measure::speedup ? *found.value < *best.value : *found.value > *best.value);
    if (is_better) best = found;
  });
  return best;
}

const Cell* MeasuredValues::find_cell(const std::string& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second;
}

std::optional<double> MeasuredValues::byte_rate(const Place& at) const {
  const std::optional<double> time = seconds(at);
  return time ? std::optional(least_bytes(at.cell->config, *at.pass) / *time) : std::nullopt;
}

Measured MeasuredValues::share_of_plain(const Place& at) const {
  const Cell* const plain = find_cell(plain_key(*at.cell));
  if (!plain || plain->status != "ok") return without_reference(plain, "the plain cell");
  return quotient(rate(at), rate({plain, at.pass}));
}

Measured MeasuredValues::change(const Place& at, double Ratio::*end) const {
  for (const CellComparison& cell : comparison_->cells) {
    if (cell.config.identity != at.cell->config.identity || cell.implementation != at.cell->implementation) continue;
    for (const PassComparison& one : cell.passes) {
      if (one.pass == at.pass) return {one.ratio.*end};
    }
  }
  return {{}, "not in A"};
}

}  // namespace strobe::report
