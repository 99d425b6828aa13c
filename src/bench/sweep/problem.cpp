// Problems, their keys, and their partition into shares.
#include "bench/sweep/problem.h"

#include <algorithm>
#include <numeric>

#include "bench/sweep/prediction.h"
#include "core/fail.h"

namespace strobe::bench {

Problem make_problem(Case one, std::vector<std::string> implementations, std::int64_t shrink) {
  constexpr std::int64_t kShortest = 512;  // below this, tensors outweigh scores and memory charts mislead
  const std::int64_t of_batch = std::clamp<std::int64_t>(one.batch, 1, shrink);
  const std::int64_t of_sequence = shrink / of_batch;
  const auto shortened = [&](std::int64_t size) {
    return size >= kShortest ? std::max(kShortest, size / of_sequence)
                             : std::max(std::min<std::int64_t>(size, 1), size / of_sequence);
  };
  one.batch /= of_batch;
  one.seq_q = shortened(one.seq_q);
  one.seq_k = shortened(one.seq_k);
  fit_lengths(one);
  Json config = config_json(one).set("shrink", shrink);
  return {.one = std::move(one), .implementations = std::move(implementations), .config = std::move(config)};
}

namespace {

std::string key_of(const Json& config, const std::string& implementation, std::int64_t launch) {
  return fmt::format("{} {} {}", implementation, launch, config.dump());
}

}  // namespace

std::string describe(const Problem& problem) {
  const std::string text = describe(problem.one);
  if (problem.launches == 1) return text;
  return text + fmt::format(", launch {} of {}", problem.launch, problem.launches);
}

std::string cell_key(const Problem& problem, const std::string& implementation) {
  return key_of(problem.config, implementation, problem.launch);
}

std::string cell_key(const Json& row) {
  const Json* launch = row.find("launch");
  return key_of(row.at("config"), row.at("implementation").as_string(), launch ? launch->at("number").as_integer() : 1);
}

Json launch_json(const Problem& problem) {
  return Json::object({{"number", problem.launch}, {"of", problem.launches}});
}

std::vector<Problem> launched(const std::vector<Problem>& problems, int launches) {
  std::vector<Problem> all;
  for (int launch = 1; launch <= launches; ++launch) {
    for (Problem problem : problems) {
      problem.launch = launch;
      problem.launches = launches;
      all.push_back(std::move(problem));
    }
  }
  return all;
}

std::size_t ProblemList::add(Problem problem) {
  const auto [place, is_new] = places_.emplace(problem.config.dump(), problems_.size());
  if (is_new) {
    problems_.push_back(std::move(problem));
    return 0;
  }
  std::vector<std::string>& names = problems_[place->second].implementations;
  std::size_t repeated = 0;
  for (std::string& name : problem.implementations) {
    const bool there = std::find(names.begin(), names.end(), name) != names.end();
    repeated += there ? 1 : 0;
    if (!there) names.push_back(std::move(name));
  }
  return repeated;
}

std::size_t count_cells(const std::vector<Problem>& problems) {
  return std::accumulate(problems.begin(), problems.end(), std::size_t{0},
                         [](std::size_t sum, const Problem& one) { return sum + one.implementations.size(); });
}

std::vector<Problem> share_of(const std::vector<Problem>& problems, const StoppingRule& rule, int number, int count) {
  std::vector<double> costs;
  for (const Problem& problem : problems) costs.push_back(predicted_seconds(problem, rule));
  std::vector<std::size_t> order(problems.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  std::vector<double> load(static_cast<std::size_t>(count));
  std::vector<bool> chosen(problems.size());
  for (const std::size_t index : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += costs[index];
    chosen[index] = least - load.begin() == number - 1;
  }
  std::vector<Problem> share;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (chosen[i]) share.push_back(problems[i]);
  }
  return share;
}

}  // namespace strobe::bench
