// Measures all implementations of a case, in this order:
// 1. For each implementation in isolation: predict memory, check outputs with the gate, measure peak memory.
// 2. Prepare and warm up the implementations that passed. Their tensors stay allocated at the same time.
// 3. Run rounds, in which each implementation takes a few samples of each region, until every series may stop.
//    Interleaving spreads disturbances of the machine evenly over the implementations, so ratios stay correct.
#include "bench/runner.h"

#include <algorithm>
#include <map>

#include "bench/memory_model.h"
#include "bench/nearest.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/short_number.h"
#include "device/device_info.h"

namespace strobe::bench {
namespace {

constexpr double kTurn = 0.03;       // a turn takes samples of a region for this many seconds
constexpr double kTurnShare = 0.05;  // or, if longer, for this fraction of the slowest contender's call
constexpr int kMaxSamplesPerTurn = 8;
constexpr double kLoadingLimit = 2;  // seconds; first calls that take longer are not dominated by library loading
constexpr double kRewarm = 0.05;     // seconds; a turn begins with an untimed call if calls are shorter

struct Contender {
  Implementation* implementation;
  Row* row;
  double estimate[3] = {0, 0, 0};  // seconds per call, by region
};

// Runs `body`. If it throws, sets the row's status and returns false; rethrows Error(invalid_argument).
template <class Body>
bool guarded(Row& row, Body&& body) {
  try {
    body();
    return true;
  } catch (const ImplementationError& error) {
    row.status = error.status();
    row.reason = error.what();
    row.asked = error.memory().asked;
    row.free = error.memory().free;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_argument) throw;
    row.status = error.code() == ErrorCode::unsupported     ? Status::unsupported
                 : error.code() == ErrorCode::out_of_memory ? Status::oom
                                                            : Status::crashed;
    row.reason = error.what();
  }
  row.forward = row.backward = row.both = {};  // only rows of status ok have times
  return false;
}

[[noreturn]] void fail_out_of_memory(const Implementation& implementation, std::int64_t asked, std::int64_t free,
                                     const std::string& advice) {
  throw ImplementationError(Status::oom,
                            fmt::format("{}: out of memory: {} asked, {} free{}", implementation.name(),
                                        exact_bytes_text(static_cast<std::size_t>(asked)),
                                        exact_bytes_text(static_cast<std::size_t>(free)), advice),
                            {asked, free});
}

void check_fits(const AttentionCase& one, Implementation& implementation, Row& row, const RunOptions& options) {
  row.predicted_bytes = implementation.predicted_bytes(one);
  const std::int64_t free = options.memory_limit.value_or(free_bytes(one.device));
  // With --memory-limit, compares the prediction, which excludes the benchmark's buffers; otherwise needed_bytes(),
  // which includes them.
  const auto asked_by = [&](const AttentionCase& some) {
    const std::optional<std::int64_t> predicted = implementation.predicted_bytes(some);
    return options.memory_limit && predicted ? *predicted : implementation.needed_bytes(some);
  };
  const std::int64_t asked = asked_by(one);
  if (asked <= free) return;
  const auto fits = [&](const AttentionCase& smaller) { return asked_by(smaller) <= free; };
  fail_out_of_memory(implementation, asked, free, "; " + advice_on(one, fits));
}

std::int64_t driver_free_bytes(const AttentionCase& one) {
  return one.device == Device::cuda ? static_cast<std::int64_t>(current_gpu_info().memory_free_bytes) : 0;
}

using Gates = std::map<double, Gate>;  // by dropout probability

AttentionCase checked_case(const AttentionCase& one, const Implementation& implementation) {
  AttentionCase checked = one;
  if (implementation.has_own_dropout_mask()) checked.options.dropout = 0;
  return checked;
}

// Prepares the case and runs each pass once.
void run_once(const AttentionCase& one, const Inputs& inputs, Contender& contender) {
  Implementation& implementation = *contender.implementation;
  implementation.prepare(one, inputs);
  contender.row->kernel = implementation.kernel();
  contender.row->configuration = implementation.configuration();
  contender.estimate[0] = implementation.time(Region::forward);
  if (has_backward(one.passes)) contender.estimate[1] = implementation.time(Region::backward);
  contender.estimate[2] = contender.estimate[0] + contender.estimate[1];
}

void check_outputs(const Gate& gate, Contender& contender) {
  Row& row = *contender.row;
  row.gate = gate.check(contender.implementation->results());
  row.gate_rows = gate.rows();
  row.gate_keys = gate.keys();
  if (row.gate->fault.empty()) return;
  throw ImplementationError(Status::wrong, fmt::format("{}: wrong result: {}", row.implementation, row.gate->fault));
}

// Step 1 for one implementation: runs each pass once, checks the outputs, and records peak memory. Without gates,
// checks nothing.
void examine(const AttentionCase& one, const Inputs& inputs, const Gates& gates, const RunOptions& options,
             Contender& contender) {
  Implementation& implementation = *contender.implementation;
  Row& row = *contender.row;
  const AttentionCase checked = checked_case(one, implementation);
  row.checked_without_dropout = !gates.empty() && checked.options.dropout != one.options.dropout;
  run_once(row.checked_without_dropout ? checked : one, inputs, contender);
  if (!gates.empty()) check_outputs(gates.at(checked.options.dropout), contender);
  if (row.checked_without_dropout) {
    implementation.release();
    run_once(one, inputs, contender);
    row.configuration += ", checked without dropout";
  }
  row.peak_bytes = implementation.metered_bytes();
  if (options.memory_limit && row.peak_bytes > options.memory_limit) {
    fail_out_of_memory(implementation, *row.peak_bytes, *options.memory_limit, " (measured peak)");
  }
  if (has_backward(one.passes)) row.saved_bytes = implementation.saved_bytes();
  implementation.release();
}

void warm_up(const AttentionCase& one, Contender& contender, double limit) {
  Implementation& implementation = *contender.implementation;
  const double forward = implementation.time(Region::forward);  // backward reads its outputs
  for (const Region region : {Region::forward, Region::backward}) {
    if (region == Region::forward ? !has_forward(one.passes) : !has_backward(one.passes)) continue;
    double& estimate = contender.estimate[static_cast<int>(region)];
    // The estimate so far, from step 1, may include the time to load a library.
    estimate = std::min(estimate, region == Region::forward ? forward : implementation.time(region));
    if (estimate > limit) continue;  // already warm after two calls
    std::vector<double> calls;
    const double start = now_seconds();
    do {
      calls.push_back(implementation.time(region));
    } while (!warmed_up(calls, now_seconds() - start, limit));
    estimate = *std::min_element(calls.begin(), calls.end());
  }
  contender.estimate[2] = contender.estimate[0] + contender.estimate[1];
}

// Returns the regions that still need samples. A region stays open for all contenders until none needs it.
std::vector<Region> open_regions(const AttentionCase& one, std::span<Contender> contenders, const StoppingRule& rule,
                                 double elapsed) {
  std::vector<Region> open;
  for (const Region region : {Region::forward, Region::backward}) {
    if (region == Region::forward ? !has_forward(one.passes) : !has_backward(one.passes)) continue;
    bool all_done = true;  // true if there are no contenders
    for (Contender& contender : contenders) {
      Series& series = contender.row->series(region);
      series.stop = decide(rule, series.samples, elapsed);
      all_done = all_done && series.stop != Stop::not_yet;
    }
    if (!all_done) open.push_back(region);
  }
  // Without --repeats, the combined region is only sampled in rounds that also sample a single pass.
  if (one.passes == Passes::both) {
    bool enough = open.empty();
    for (Contender& contender : contenders) {
      Series& series = contender.row->both;
      series.stop = decide(rule, series.samples, elapsed);
      if (rule.repeats > 0) enough = enough && series.stop == Stop::repeats;
    }
    if (!enough) open.push_back(Region::both);
  }
  return open;
}

// Returns how many samples of the region this contender takes in its turn.
int samples_in_turn(const Contender& contender, Region region, double slowest, const StoppingRule& rule) {
  const double estimate = std::max(contender.estimate[static_cast<int>(region)], 1e-9);
  const std::size_t taken = contender.row->series(region).samples.size();
  if (rule.repeats == 0 && region == Region::both) {
    const bool is_slow = estimate > rule.time_limit / 8;
    return is_slow && taken > 0 ? 0 : 1;
  }
  const double turn = std::max(kTurn, kTurnShare * slowest);
  const int most = turn > kTurn ? 4 * kMaxSamplesPerTurn : kMaxSamplesPerTurn;
  const int count = std::clamp(static_cast<int>(turn / estimate), 1, most);
  return rule.repeats > 0 ? std::min(count, rule.repeats - static_cast<int>(taken)) : count;
}

void take_turn(Contender& contender, std::span<const Region> regions, std::span<const Contender> all,
               const StoppingRule& rule) {
  for (const Region region : regions) {
    const auto index = static_cast<int>(region);
    double slowest = 0;
    for (const Contender& other : all) slowest = std::max(slowest, other.estimate[index]);
    const int count = samples_in_turn(contender, region, slowest, rule);
    if (count <= 0) continue;
    if (contender.estimate[index] < kRewarm) contender.implementation->time(region);
    std::vector<double>& samples = contender.row->series(region).samples;
    for (int i = 0; i < count; ++i) samples.push_back(contender.implementation->time(region));
  }
}

// Estimates the seconds of the remaining required calls from the first call of each region. Returns 0 if these calls
// were too short for an estimate.
double calls_left(const AttentionCase& one, std::span<const Contender> contenders, const StoppingRule& rule) {
  double calls = 0;
  for (const Contender& contender : contenders) {
    if (has_forward(one.passes)) calls += contender.estimate[0];
    if (has_backward(one.passes)) calls += contender.estimate[1];
  }
  if (calls < kLoadingLimit) return 0;
  const int both = one.passes == Passes::both ? 1 : 0;  // samples of the combined region
  const int samples = rule.repeats > 0 ? (1 + both) * rule.repeats : rule.least_at_limit + both;
  constexpr int kWarmUps = 1;
  return (kWarmUps + samples) * calls;
}

// Returns the largest ratio of remaining to taken samples over all series; 0 if all have enough.
double rounds_left(std::span<const Region> open, std::span<Contender> contenders, const StoppingRule& rule) {
  const int wanted = rule.repeats > 0 ? rule.repeats : rule.least_at_limit;
  double most = 0;
  for (const Region region : open) {
    if (rule.repeats == 0 && region == Region::both) continue;  // only sampled while another region is open
    for (Contender& contender : contenders) {
      const auto taken = static_cast<double>(contender.row->series(region).samples.size());
      if (taken > 0) most = std::max(most, (wanted - taken) / taken);
    }
  }
  return most;
}

}  // namespace

std::vector<Row> run_case(const AttentionCase& one, const Implementations& implementations, const RunOptions& options) {
  const auto report_step = [&](const char* step, const std::string& implementation = {}) {
    if (options.progress) options.progress(step, implementation);
  };
  const auto passes = [&](Row& row, auto&& body) {
    if (guarded(row, body)) return true;
    if (options.failed) options.failed(row);
    return false;
  };
  explain(attention_of(one), Pass::forward, execution_of(one));  // throws if the case is invalid
  std::vector<Row> rows(implementations.size());
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].one = one;
    rows[i].implementation = implementations[i]->name();
    report_step("examine", rows[i].implementation);
    const auto fit = [&] { check_fits(one, *implementations[i], rows[i], options); };
    if (passes(rows[i], fit)) contenders.push_back({implementations[i].get(), &rows[i]});
  }
  if (contenders.empty()) return rows;

  report_step("make inputs");
  const Inputs inputs = make_inputs(one, options.seed);
  Gates gates;
  if (options.check == Check::on) {
    report_step("reference values in float64");
    for (const Contender& contender : contenders) {
      const AttentionCase checked = checked_case(one, *contender.implementation);
      gates.try_emplace(checked.options.dropout, checked, inputs);
    }
  }
  // Runs a step for every contender. A failure sets the row's status and removes the contender.
  const auto each = [&](const char* title, auto&& step) {
    std::vector<Contender> passed;
    for (Contender& contender : contenders) {
      report_step(title, contender.row->implementation);
      if (passes(*contender.row, [&] { step(contender); })) {
        passed.push_back(contender);
      } else {
        contender.implementation->release();
      }
    }
    contenders = std::move(passed);
  };
  each("check", [&](Contender& contender) { examine(one, inputs, gates, options, contender); });
  if (options.left) options.left(calls_left(one, contenders, options.rule));
  each("warm up", [&](Contender& contender) {
    const std::int64_t free = driver_free_bytes(one);
    contender.implementation->prepare(one, inputs);
    warm_up(one, contender, options.rule.time_limit / 4);
    if (const std::int64_t left = driver_free_bytes(one); left < free) contender.row->driver_bytes = free - left;
    contender.implementation->settle();
  });
  const bool is_single = contenders.size() == 1;
  const double start = now_seconds();
  double waited = 0;  // seconds in settle(), excluded from the time limit
  for (;;) {
    const std::vector<Region> open = open_regions(one, contenders, options.rule, now_seconds() - start - waited);
    if (open.empty()) break;
    each("measure", [&](Contender& contender) {
      take_turn(contender, open, contenders, options.rule);
      const double before = now_seconds();
      if (!is_single) contender.implementation->settle();
      waited += now_seconds() - before;
    });
    if (options.left) options.left((now_seconds() - start) * rounds_left(open, contenders, options.rule));
  }
  for (Contender& contender : contenders) contender.implementation->release();
  return rows;
}

}  // namespace strobe::bench
