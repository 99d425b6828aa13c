// Fits the estimate by which the library chooses the Hopper forward's tiles for few heads (forward/estimate.h) to a
// table of measured times. tools/fit-few-heads compiles and runs it. Prints how much slower the chosen tiles are than
// the fastest ones, with the library's constants and with constants found by random search.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "attention/cuda/sm90/forward/config.h"

namespace {

using namespace strobe::cuda::sm90;

constexpr double kClocksPerMicrosecond = 1755, kCallMicroseconds = 5.7;  // time of a call in addition to the estimate

struct Option {
  int rows, splits;  // arguments of forced_config()
};
constexpr std::array<Option, 6> kOptions = {{{0, 1}, {128, 1}, {64, 1}, {64, 2}, {64, 4}, {64, 8}}};

struct Cell {
  ForwardFacts facts;
  std::array<double, kOptions.size()> microseconds;

  double fastest() const { return *std::min_element(microseconds.begin(), microseconds.end()); }
};

std::vector<Cell> read_cells(const char* path) {
  constexpr std::string_view kCard = "multiprocessors,";
  std::vector<Cell> cells;
  std::ifstream file(path);
  int multiprocessors = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kCard)) multiprocessors = std::atoi(line.c_str() + kCard.size());
    if (line.empty() || line[0] < '0' || line[0] > '9') continue;
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream words(line);
    Cell cell{};
    ForwardFacts& facts = cell.facts;
    words >> facts.d >> facts.uneven >> facts.heads >> facts.max_seqlen_k;
    for (double& time : cell.microseconds) words >> time;
    if (!words || multiprocessors < 1) {
      std::fprintf(stderr, "fit-few-heads: %s: expected ten numbers, after a line such as multiprocessors,132\n",
                   line.c_str());
      std::exit(2);
    }
    facts.dv = facts.d, facts.max_seqlen_q = facts.max_seqlen_k, facts.multiprocessors = multiprocessors;
    cells.push_back(cell);
  }
  return cells;
}

// Returns the measured option that is closest to the configuration that the estimate chooses.
std::size_t chosen(const Cell& cell, const ForwardClocks& fitted) {
  const ForwardConfig config = forward_config(cell.facts, fitted);
  if (config.splits == 1 && config.shape == rule_config(cell.facts).shape) return 0;
  if (rows_of(config.shape) == 128) return 1;
  const long power = std::lround(std::log2(config.splits));
  return static_cast<std::size_t>(2 + std::min(power, 3L));
}

struct Regret {
  double mean = 0, worst = 0;  // slowdown factors
  Cell worst_cell{};
};
Regret regret(const std::vector<Cell>& cells, const ForwardClocks& fitted) {
  Regret result;
  for (const Cell& cell : cells) {
    const double factor = cell.microseconds[chosen(cell, fitted)] / cell.fastest();
    result.mean += std::log(factor) / static_cast<double>(cells.size());
    if (factor > result.worst) result.worst = factor, result.worst_cell = cell;
  }
  result.mean = std::exp(result.mean);
  return result;
}

// Returns the objective of the search: the mean over all cells of the log slowdown of the chosen tiles (linear and
// quadratic), plus a small term for errors of the predicted times.
double loss(const std::vector<Cell>& cells, const ForwardClocks& fitted) {
  double sum = 0;
  for (const Cell& cell : cells) {
    const double wrong = std::log(cell.microseconds[chosen(cell, fitted)] / cell.fastest());
    sum += wrong * wrong + 0.3 * wrong;
    for (std::size_t i = 0; i < kOptions.size(); ++i) {
      const double clocks =
          forward_clocks(cell.facts, forced_config(cell.facts, kOptions[i].rows, kOptions[i].splits), fitted);
      const double off = std::log((clocks / kClocksPerMicrosecond + kCallMicroseconds) / cell.microseconds[i]);
      sum += 0.05 / kOptions.size() * off * off;
    }
  }
  return sum / static_cast<double>(cells.size());
}

constexpr double ForwardClocks::*kFactors[] = {
    &ForwardClocks::several,      &ForwardClocks::several_rows,   &ForwardClocks::sharing,
    &ForwardClocks::sharing_rows, &ForwardClocks::sharing_column, &ForwardClocks::single,
    &ForwardClocks::single_rows,  &ForwardClocks::adding,         &ForwardClocks::added_a_clock};

ForwardClocks search(const std::vector<Cell>& cells) {
  std::mt19937 random(1);
  std::normal_distribution<double> step(0, 0.1);
  ForwardClocks best;
  double least = loss(cells, best);
  for (int i = 0; i < 6000; ++i) {
    ForwardClocks tried = best;
    for (int n = 1 + static_cast<int>(random() % 3); n > 0; --n) {
      tried.*kFactors[random() % std::size(kFactors)] *= std::exp(step(random));
    }
    if (random() % 4 == 0) tried.gain = std::max(1.0, tried.gain + 0.1 * step(random));
    if (const double found = loss(cells, tried); found < least) least = found, best = tried;
  }
  return best;
}

void show(const char* whose, const std::vector<Cell>& cells, const ForwardClocks& c) {
  const Regret found = regret(cells, c);
  const ForwardFacts& worst = found.worst_cell.facts;
  std::printf("%s: %.4f times the fastest on average, %.3f at worst (D %d, %lld heads, S %lld%s)\n", whose, found.mean,
              found.worst, worst.d, static_cast<long long>(worst.heads), static_cast<long long>(worst.max_seqlen_k),
              worst.uneven ? ", causal" : "");
  std::printf("  several %.3g %.3g, sharing %.3g %.4g %.3g, single %.3g %.3g, adding %.4g %.4g, gain %.4g\n", c.several,
              c.several_rows, c.sharing, c.sharing_rows, c.sharing_column, c.single, c.single_rows, c.adding,
              c.added_a_clock, c.gain);
}

}  // namespace

// Arguments: FILE [MOST]. With MOST, exits with 1 if the tiles chosen with the library's constants take more than MOST
// times as long as the fastest ones on average.
int main(int count, char** words) {
  const std::vector<Cell> cells = count > 1 ? read_cells(words[1]) : std::vector<Cell>{};
  if (cells.empty()) {
    std::fprintf(stderr, "fit-few-heads: no cells in %s\n", count > 1 ? words[1] : "no file");
    return 2;
  }
  std::printf("%zu cells\n", cells.size());
  const ForwardClocks now;
  show("the library's constants", cells, now);
  if (count > 2) return regret(cells, now).mean <= std::atof(words[2]) ? 0 : 1;
  show("constants fitted to these cells", cells, search(cells));
}
