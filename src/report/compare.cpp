// Implements compare(): matches the cells of two sides, and adds notes if the machines differ or there are few
// launches.
#include "report/compare.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/fail.h"
#include "core/printable.h"
#include "report/difference.h"

namespace strobe::report {
namespace {

// All rows of one configuration and implementation, from any machine and build.
struct Group {
  const Result* first = nullptr;
  std::string status;
  std::vector<Launch> forward, backward, step;
  std::optional<double> peak_mb;
};

struct Groups {
  std::vector<std::string> order;  // keys in order of first appearance
  std::map<std::string, Group> by_identity;

  std::vector<const Result*> first_rows() const {
    std::vector<const Result*> rows;
    for (const std::string& identity : order) rows.push_back(by_identity.at(identity).first);
    return rows;
  }
};

void add_launch(std::vector<Launch>& launches, const std::optional<Timing>& timing) {
  if (timing) launches.push_back(timing->samples.empty() ? Launch{timing->median} : timing->samples);
}

Groups group(std::span<const Result> results) {
  Groups groups;
  for (const Result& result : results) {
    const std::string identity = result.config.identity + '\n' + result.implementation;
    Group& one = groups.by_identity[identity];
    if (!one.first) {
      one.first = &result;
      groups.order.push_back(identity);
    }
    if (one.status != "ok") one.status = result.status;
    add_launch(one.forward, result.forward);
    add_launch(one.backward, result.backward);
    add_launch(one.step, result.step);
    one.peak_mb = std::max(one.peak_mb, result.peak_mb);
  }
  return groups;
}

std::string title(const Result& result) { return result.implementation + ": " + describe(result.config); }

CellComparison compare_cell(const Group& a, const Group& b, double threshold) {
  CellComparison cell{.config = a.first->config,
                      .implementation = a.first->implementation,
                      .status_a = a.status,
                      .status_b = b.status,
                      .passes = {},
                      .memory_ratio = {}};
  const auto add = [&](Pass pass, const std::vector<Launch>& from, const std::vector<Launch>& to) {
    if (from.empty() || to.empty()) return;
    const Ratio ratio = bootstrap_ratio(from, to);
    cell.passes.push_back({pass, launch_seconds(from), launch_seconds(to), ratio, verdict_on(ratio, threshold)});
  };
  add(Pass::forward, a.forward, b.forward);
  add(Pass::backward, a.backward, b.backward);
  add(Pass::step, a.step, b.step);
  if (a.peak_mb && b.peak_mb && *a.peak_mb > 0) cell.memory_ratio = *b.peak_mb / *a.peak_mb;
  return cell;
}

std::set<std::string> values_of(const Side& side, std::string Result::*field) {
  std::set<std::string> values;
  for (const Result& result : side.results) values.insert(result.*field);
  return values;
}

std::vector<std::string> notes_on(const Side& a, const Side& b, const Comparison& comparison) {
  std::vector<std::string> notes;
  const std::set<std::string> from = values_of(a, &Result::machine), to = values_of(b, &Result::machine);
  if (from != to) {
    notes.push_back(fmt::format("A and B are from different machines ({}; {}): the ratio does not compare builds",
                                fmt::join(from, ", "), fmt::join(to, ", ")));
  }
  std::size_t least = kEnoughLaunches;
  for (const CellComparison& cell : comparison.cells) {
    for (const PassComparison& pass : cell.passes) least = std::min(least, pass.ratio.launches);
  }
  if (least < kEnoughLaunches) {
    const std::string what =
        least == 1 ? "one launch proves no difference: "
                   : fmt::format("launches are assumed to differ by {:.0f} % or more: ", 100 * kLaunchDeviation);
    notes.push_back(fmt::format("only {} launch{} of some cells; {}make both files with --launches {}", least,
                                least == 1 ? "" : "es", what, kEnoughLaunches));
  }
  return notes;
}

Unmatched unmatched(const Groups& here, const Groups& there) {
  Unmatched only;
  for (const std::string& identity : here.order) {
    if (there.by_identity.contains(identity)) continue;
    const Result& first = *here.by_identity.at(identity).first;
    if (only.cells.empty()) only.difference = nearest_text(first, there.first_rows());
    only.cells.push_back(title(first));
  }
  return only;
}

}  // namespace

std::size_t Comparison::count(Verdict verdict) const {
  std::size_t count = 0;
  for (const CellComparison& cell : cells) {
    for (const PassComparison& pass : cell.passes) count += pass.verdict == verdict;
  }
  return count;
}

std::pair<Side, Side> split_launches(const Side& side) {
  std::pair<Side, Side> sides{{side.name + ", launches 1, 3, ...", {}}, {side.name + ", launches 2, 4, ...", {}}};
  std::map<std::string, std::size_t> launches;
  for (const Result& result : side.results) {
    const std::size_t number = launches[result.config.identity + '\n' + result.implementation]++;
    (number % 2 == 0 ? sides.first : sides.second).results.push_back(result);
  }
  for (const auto& [identity, count] : launches) {
    if (count < 2) {
      fail(ErrorCode::invalid_argument,
           "{}: a cell has only one launch; limits on a change need at least 2 launches, or a second file",
           printable(side.name));
    }
  }
  return sides;
}

Comparison compare(const Side& a, const Side& b, double threshold) {
  Comparison comparison{
      .name_a = a.name, .name_b = b.name, .threshold = threshold, .cells = {}, .only_a = {}, .only_b = {}, .notes = {}};
  const Groups from = group(a.results), to = group(b.results);
  for (const std::string& identity : from.order) {
    const Group& one = from.by_identity.at(identity);
    const auto other = to.by_identity.find(identity);
    if (other != to.by_identity.end()) comparison.cells.push_back(compare_cell(one, other->second, threshold));
  }
  if (comparison.cells.empty()) {
    fail(ErrorCode::invalid_argument, "{} and {} have no cell in common; {}", printable(a.name), printable(b.name),
         difference_text(from.first_rows(), to.first_rows()));
  }
  comparison.only_a = unmatched(from, to);
  comparison.only_b = unmatched(to, from);
  comparison.notes = notes_on(a, b, comparison);
  return comparison;
}

}  // namespace strobe::report
