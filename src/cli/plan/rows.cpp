#include "cli/plan/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/fail.h"

namespace strobe::cli {

bool says(const Json& row, const char* key, std::string_view value) {
  const Json* found = row.is_object() ? row.find(key) : nullptr;
  return found && found->is_string() && found->as_string() == value;
}

double figure_in(const Json& row, const char* key, const report::Range& range) {
  return report::checked_number(key, row.at(key), range);
}

std::optional<double> seconds_of(const Json& row, const char* phase) {
  const Json* times = row.find(phase);
  if (!times || !times->is_object()) return {};
  return 1e-3 * figure_in(*times, "median(ms)", report::kMillisecondsRange);
}

void each_result(const std::string& path, const report::TakeRow& take) {
  report::each_row_of_file(path, [&](const Json& value) {
    const Json* inner = value.is_object() ? value.find("rows") : nullptr;
    if (!inner) return take(value);
    const auto& rows = inner->as_array();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      try {
        take(rows[i]);
      } catch (const Error& error) {
        fail(ErrorCode::invalid_argument, "row {}: {}", i + 1, error.what());
      }
    }
  });
}

bool is_collective(const Json& row) { return says(row, "kind", "collective"); }

std::optional<lm::LinkSample> link_sample(const Json& row) {
  if (!is_collective(row) || !says(row, "status", "ok") || !row.find("statistics")) return {};
  for (const comm::Kind kind : {comm::Kind::all_reduce, comm::Kind::reduce_scatter, comm::Kind::all_gather}) {
    if (!says(row, "operation", comm::name_of(kind))) continue;
    const std::int64_t ranks = row.at("ranks").as_integer();
    if (ranks < 2 || ranks > 1 << 20) return {};
    return lm::LinkSample{kind, ranks, figure_in(row, "bytes", report::kBytesRange),
                          figure_in(row.at("statistics"), "median(s)", report::kSecondsRange)};
  }
  return {};
}

std::vector<lm::LinkSample> link_samples(const std::string& path, std::optional<std::int64_t> ranks) {
  std::vector<lm::LinkSample> found;
  std::set<std::string> kinds;
  std::set<std::int64_t> all;
  std::int64_t wanted = ranks.value_or(0);
  each_result(path, [&](const Json& row) {
    const std::optional<lm::LinkSample> sample = link_sample(row);
    if (!sample) return;
    all.insert(sample->ranks);
    kinds.insert(row.at("engine").as_string() + " " + row.at("memory").as_string());
    found.push_back(*sample);
    if (!ranks) wanted = std::max(wanted, sample->ranks);
  });
  if (all.empty()) {
    fail(ErrorCode::invalid_argument, "--comm {}: no times of collectives between ranks; valid: rows of strobe comm",
         path);
  }
  if (kinds.size() > 1) {
    fail(ErrorCode::invalid_argument, "--comm {}: rows of {}; valid: of one engine and memory", path,
         fmt::join(kinds, " and "));
  }
  if (!all.contains(wanted)) {
    fail(ErrorCode::invalid_argument, "--ranks {}: --comm {} has rows of {}", wanted, path, fmt::join(all, ", "));
  }
  std::erase_if(found, [&](const lm::LinkSample& sample) { return sample.ranks != wanted; });
  return found;
}

}  // namespace strobe::cli
