#include "cli/lm/ranks_row.h"

#include <algorithm>

namespace strobe::cli {
namespace {

std::size_t most(const ParallelRow& row, const auto& bytes_of) {
  std::size_t found = 0;
  for (const lm::ParallelTimes& rank : row.ranks) found = std::max<std::size_t>(found, bytes_of(rank));
  return found;
}

}  // namespace

const ParallelRow* find(const ParallelRow& row, const std::vector<ParallelRow>& rows, std::string_view strategy) {
  for (const ParallelRow& other : rows) {
    const std::string_view name = other.exchange ? other.exchange->strategy.name : "";
    if (other.cell == row.cell && name == strategy && other.error.empty()) return &other;
  }
  return nullptr;
}

Summary slowest_steps(const ParallelRow& row) {
  std::vector<double> seconds(row.ranks[0].steps.size());
  for (const lm::ParallelTimes& rank : row.ranks) {
    for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = std::max(seconds[i], rank.steps[i].whole);
  }
  return summarize(seconds);
}

Summary part_of(const ParallelRow& row, double lm::ParallelStep::*part) {
  std::vector<double> seconds;
  for (const lm::ParallelTimes& rank : row.ranks) {
    for (const lm::ParallelStep& step : rank.steps) seconds.push_back(step.*part);
  }
  return summarize(seconds);
}

double mean_of(const lm::ParallelTimes& rank, double lm::ParallelStep::*part) {
  double sum = 0;
  for (const lm::ParallelStep& step : rank.steps) sum += step.*part;
  return sum / static_cast<double>(rank.steps.size());
}

std::size_t optimizer_bytes(const ParallelRow& row) {
  return most(row, [](const lm::ParallelTimes& rank) { return rank.optimizer_bytes; });
}

lm::ParallelMemory memory_of(const ParallelRow& row) {
  return {most(row, [](const lm::ParallelTimes& rank) { return rank.memory.after_init; }),
          most(row, [](const lm::ParallelTimes& rank) { return rank.memory.before_update; }),
          most(row, [](const lm::ParallelTimes& rank) { return rank.memory.after_step; })};
}

std::optional<double> speedup(const ParallelRow& row, const std::vector<ParallelRow>& rows) {
  const ParallelRow* alone = find(row, rows, "");
  if (!alone) return {};
  return slowest_steps(*alone).mean / slowest_steps(row).mean;
}

std::optional<double> communication_share(const ParallelRow& row) {
  if (!row.exchange) return {};
  return 100 * part_of(row, &lm::ParallelStep::exposed).mean / part_of(row, &lm::ParallelStep::whole).mean;
}

std::optional<double> speedup_over_naive(const ParallelRow& row, const std::vector<ParallelRow>& rows) {
  const ParallelRow* naive = find(row, rows, "naive");
  if (!row.exchange || !naive) return {};
  return slowest_steps(*naive).mean / slowest_steps(row).mean;
}

std::optional<double> reduction(const ParallelRow& row, const std::vector<ParallelRow>& rows) {
  const ParallelRow* naive = find(row, rows, "naive");
  if (!row.exchange || !naive) return {};
  const double before = part_of(*naive, &lm::ParallelStep::exposed).mean;
  if (!(before > 0)) return {};
  return 100 * (1 - part_of(row, &lm::ParallelStep::exposed).mean / before);
}

}  // namespace strobe::cli
