// Implements standing_of() and verdict_text().
#include "report/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/counted.h"
#include "report/charts.h"

namespace strobe::report {
namespace {

struct Time {
  double seconds, low, high;
  bool has_interval() const { return low < high; }  // a single sample has none
};

std::optional<Time> time_of(const Cell& cell, Pass pass) {
  const std::optional<double> seconds = cell.seconds(pass);
  const std::optional<Interval> interval = cell.interval(pass);
  if (!seconds || !interval || *seconds <= 0 || interval->low <= 0) return std::nullopt;
  return Time{*seconds, interval->low, interval->high};
}

// Returns the pass to compare: the total if all measured cells have it, else the pass that most of them have.
Pass pass_of(std::span<const Cell> cells) {
  const auto count = [&](Pass pass) {
    return std::ranges::count_if(cells, [&](const Cell& cell) { return time_of(cell, pass).has_value(); });
  };
  const auto measured = std::ranges::count_if(cells, [](const Cell& cell) { return !cell.launches.empty(); });
  if (count(Pass::total) == measured) return Pass::total;
  return std::max({Pass::forward, Pass::backward, Pass::step}, [&](Pass a, Pass b) { return count(a) < count(b); });
}

using ProblemTimes = std::map<std::string, std::map<std::string, Time>>;  // by problem, then by series

struct Score {
  std::string name;
  std::size_t won = 0;
  double logarithms = 0;  // sum of log(time / least time of the problem)
};

std::vector<Score> scores_of(const ProblemTimes& times) {
  std::map<std::string, Score> scores;
  for (const auto& [problem, series] : times) {
    const auto faster = [](const auto& a, const auto& b) { return a.second.seconds < b.second.seconds; };
    const auto best = std::ranges::min_element(series, faster);
    for (const auto& [name, time] : series) {
      Score& score = scores[name];
      score.name = name;
      score.logarithms += std::log(time.seconds / best->second.seconds);
    }
    ++scores[best->first].won;
  }
  std::vector<Score> list;
  for (auto& [name, score] : scores) list.push_back(std::move(score));
  std::ranges::stable_sort(list, [](const Score& a, const Score& b) {
    return a.won != b.won ? a.won > b.won : a.logarithms < b.logarithms;
  });
  return list;
}

Lead lead_over(const ProblemTimes& times, const std::string& leader, const std::string& other) {
  Lead lead{.other = other, .low = HUGE_VAL, .high = 0};
  double logarithms = 0;
  for (const auto& [problem, series] : times) {
    const auto mine = series.find(leader), theirs = series.find(other);
    if (mine == series.end() || theirs == series.end()) continue;
    const Time &a = mine->second, &b = theirs->second;
    const double factor = b.seconds / a.seconds;
    ++lead.problems;
    logarithms += std::log(factor);
    lead.low = std::min(lead.low, factor);
    lead.high = std::max(lead.high, factor);
    const bool known = a.has_interval() && b.has_interval();
    lead.certain += known && b.low > a.high ? 1 : 0;
    lead.contrary += known && b.high < a.low ? 1 : 0;
    if (times.size() == 1) lead.low = b.low / a.high, lead.high = b.high / a.low;
  }
  if (lead.problems > 0) lead.factor = std::exp(logarithms / static_cast<double>(lead.problems));
  return lead;
}

std::string factor_text(double factor) { return fmt::format("{:.{}f}x", factor, factor < 9.95 ? 2 : 1); }

std::string range_text(const Lead& lead) {
  return fmt::format("{:.{}f} to {:.{}f}", lead.low, lead.low < 9.95 ? 2 : 1, lead.high, lead.high < 9.95 ? 2 : 1);
}

std::string pass_text(Pass pass) {
  return pass == Pass::total ? "forward plus backward" : pass == Pass::step ? "per step" : name_of(pass);
}

std::string certainty_text(const Lead& lead, std::size_t problems) {
  if (problems == 1) return "";
  return fmt::format("; certain in {} of {}{}", lead.certain, lead.problems,
                     lead.contrary > 0 ? fmt::format(", slower in {}", lead.contrary) : "");
}

}  // namespace

bool Standing::is_clear() const { return std::ranges::all_of(leads, &Lead::is_clear); }

Standing standing_of(std::span<const Cell> cells, const SeriesNames& names) {
  Standing standing;
  standing.pass = pass_of(cells);
  ProblemTimes times;
  standing.launches = SIZE_MAX;
  for (const Cell& cell : cells) {
    const std::optional<Time> time = time_of(cell, standing.pass);
    if (!time) continue;
    times[problem_of(cell)].emplace(names.name(cell), *time);
    standing.launches = std::min(standing.launches, cell.launches.size());
  }
  const std::vector<Score> scores = scores_of(times);
  standing.problems = times.size();
  if (scores.empty()) return standing;
  standing.leader = scores[0].name;
  standing.won = scores[0].won;
  for (std::size_t i = 1; i < scores.size(); ++i) {
    const Lead lead = lead_over(times, standing.leader, scores[i].name);
    if (lead.problems > 0) standing.leads.push_back(lead);
  }
  std::ranges::stable_sort(standing.leads, {}, &Lead::factor);
  return standing;
}

std::string verdict_text(const Standing& standing) {
  constexpr std::size_t kMostLeads = 3;
  if (standing.leads.empty()) return "";
  const bool one = standing.problems == 1;
  std::string text = standing.leader + " is fastest";
  if (one && !standing.leads[0].is_clear()) text = standing.leader + " has the least time, but not with certainty";
  if (!one) text += fmt::format(" in {} of {} problems", standing.won, standing.problems);
  std::vector<std::string> parts;
  for (const Lead& lead : standing.leads) {
    if (parts.size() == kMostLeads) {
      parts.push_back(fmt::format("and {} more", counted(standing.leads.size() - kMostLeads, "implementation")));
      break;
    }
    parts.push_back(fmt::format("{} as fast as {} ({}{})", factor_text(lead.factor), lead.other, range_text(lead),
                                certainty_text(lead, standing.problems)));
  }
  return text + fmt::format(": {}; {}, {} {}, {}", fmt::join(parts, ", "), pass_text(standing.pass), standing.launches,
                            standing.launches == 1 ? "launch" : "launches",
                            one ? "95 % intervals" : "geometric mean and range; certain: no overlap of 95 % intervals");
}

}  // namespace strobe::report
