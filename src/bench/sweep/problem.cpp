// Implements problems: their keys, merging, shards, and estimates of time and memory.
#include "bench/sweep/problem.h"

#include <algorithm>
#include <numeric>

#include "bench/implementation.h"
#include "bench/memory_model.h"
#include "bench/onednn_peer.h"
#include "core/fail.h"

namespace strobe::bench {
namespace {

constexpr double kStart = 0.1;    // seconds per cell, independent of its size
constexpr double kWarmUp = 0.2;   // minimum seconds per region
constexpr int kUntimedCalls = 5;  // per region

double share_of_matmul_rate(const std::string& implementation, Device device) {
  if (implementation == "reference") return 0.003;
  if (implementation == "standard" || implementation == "frugal" || implementation == kOnednnPeer)
    return device == Device::cuda ? 0.05 : 0.1;
  return is_peer(implementation) ? 0.3 : 0.5;
}

}  // namespace

SweepProblem make_problem(AttentionCase one, std::vector<std::string> implementations, std::int64_t shrink) {
  constexpr std::int64_t kShortest = 512;  // with shorter sequences, tensors take more memory than scores
  const std::int64_t of_batch = std::clamp<std::int64_t>(one.batch, 1, shrink);
  const std::int64_t of_sequence = shrink / of_batch;
  const auto shortened = [&](std::int64_t size) {
    return size >= kShortest ? std::max(kShortest, size / of_sequence)
                             : std::max(std::min<std::int64_t>(size, 1), size / of_sequence);
  };
  one.batch /= of_batch;
  one.seqlen_q = shortened(one.seqlen_q);
  one.seqlen_k = shortened(one.seqlen_k);
  fit_lengths(one);
  Json config = config_json(one).set("shrink", shrink);
  return {.one = std::move(one), .implementations = std::move(implementations), .config = std::move(config)};
}

namespace {

std::string key_of(const Json& config, const std::string& implementation, std::int64_t launch) {
  Json::Object members = config.as_object();  // sorted, because the order of keys depends on the build
  std::ranges::sort(members, {}, &std::pair<std::string, Json>::first);
  return fmt::format("{} {} {}", implementation, launch, Json::object(std::move(members)).dump());
}

}  // namespace

std::string describe(const SweepProblem& problem) {
  const std::string text = describe(problem.one);
  if (problem.launches == 1) return text;
  return text + fmt::format(", launch {} of {}", problem.launch, problem.launches);
}

std::string cell_key(const SweepProblem& problem, const std::string& implementation) {
  return key_of(problem.config, implementation, problem.launch);
}

std::string cell_key(const Json& row) {
  const Json* launch = row.find("launch");
  return key_of(row.at("config"), row.at("implementation").as_string(), launch ? launch->at("number").as_integer() : 1);
}

Json launch_json(const SweepProblem& problem) {
  return Json::object({{"number", problem.launch}, {"of", problem.launches}});
}

std::vector<SweepProblem> launched(const std::vector<SweepProblem>& problems, int launches) {
  std::vector<SweepProblem> all;
  for (int launch = 1; launch <= launches; ++launch) {
    for (SweepProblem problem : problems) {
      problem.launch = launch;
      problem.launches = launches;
      all.push_back(std::move(problem));
    }
  }
  return all;
}

std::size_t ProblemList::add(SweepProblem problem) {
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

std::size_t count_cells(const std::vector<SweepProblem>& problems) {
  return std::accumulate(problems.begin(), problems.end(), std::size_t{0},
                         [](std::size_t sum, const SweepProblem& one) { return sum + one.implementations.size(); });
}

std::vector<SweepProblem> share_of(const std::vector<SweepProblem>& problems, const StoppingRule& rule, int number,
                                   int count) {
  std::vector<double> costs;
  for (const SweepProblem& problem : problems) costs.push_back(predicted_seconds(problem, rule));
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
  std::vector<SweepProblem> share;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (chosen[i]) share.push_back(problems[i]);
  }
  return share;
}

double assumed_matmul_rate(Device device) { return device == Device::cuda ? 4e14 : 1e11; }

double predicted_call(const AttentionCase& one, const std::string& implementation, double matmul_rate) {
  const double flops =
      (has_forward(one.passes) ? forward_flops(one) : 0) + (has_backward(one.passes) ? backward_flops(one) : 0);
  return flops / (matmul_rate * share_of_matmul_rate(implementation, one.device));
}

double predicted_seconds(const AttentionCase& one, const std::string& implementation, const StoppingRule& rule,
                         double matmul_rate) {
  const double call = predicted_call(one, implementation, matmul_rate);
  const int regions = one.passes == Passes::both ? 2 : 1;
  // With both passes, each is timed separately and once more in the combined region.
  const double sample = regions * call;
  const double most = rule.repeats > 0 ? rule.repeats * sample : std::min(rule.time_limit, rule.least_samples * sample);
  return kStart + std::max(regions * kWarmUp, kUntimedCalls * call) + most;
}

double predicted_seconds(const SweepProblem& problem, const StoppingRule& rule) {
  double sum = 0;
  for (const std::string& name : problem.implementations) {
    sum += predicted_seconds(problem.one, name, rule, assumed_matmul_rate(problem.one.device));
  }
  return sum;
}

PredictedMemory predicted_memory(const AttentionCase& one, const std::string& implementation) {
  if (implementation == "torch-naive" && !one.options.any()) {
    const MemoryModel model = predict_torch_naive(one);
    return {model.forward_bytes() + model.backward_bytes(), {}};
  }
  if (is_peer(implementation)) {
    const TensorBytes bytes = tensor_bytes(one);
    return {bytes.forward() + (has_backward(one.passes) ? bytes.backward_extra() : 0), {}};
  }
  try {
    return {held_bytes(implementation, one), {}};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return {std::nullopt, error.what()};
  }
}

}  // namespace strobe::bench
