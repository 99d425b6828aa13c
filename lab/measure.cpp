// Implements measure(): checks the result, warms up, then takes samples. A case that would take too long is replaced by
// a smaller one.
#include "lab/measure.h"

#include <limits>
#include <new>
#include <vector>

#include "core/clock.h"
#include "core/statistics.h"
#include "results/schema.h"
#include "solve/cases.h"
#include "strobe/error.h"

namespace strobe::lab {
namespace {

struct Sample {
  Split split;
  double wall;  // seconds of the whole call
};

Sample run_once(Run run, const RungProblem& problem, std::vector<float>& o) {
  const double start = now_seconds();
  const Split split = run(problem, o.data());
  return {split, now_seconds() - start};
}

// Returns the case to run: `full` if it is fast enough, otherwise a smaller one.
CourseCase fitting(Run run, const CourseCase& full, Subjects& subjects, double limit) {
  bool first = true;
  return fitting_case(full, limit, [&](const CourseCase& probe) {
    const RungProblem problem = subjects.of(probe).inputs.problem();
    std::vector<float> o(static_cast<std::size_t>(problem.elements()));
    if (first) run_once(run, problem, o);  // the first call also loads the code
    first = false;
    return run_once(run, problem, o).wall;
  });
}

struct Timing {
  std::vector<Sample> samples;
  const char* stop;
};

// Warms up, then takes samples until `rule` ends the series. `first` is the call whose result was checked. If this call
// took the whole time limit, it is the only sample.
Timing sample(Run run, const RungProblem& problem, std::vector<float>& o, const Sample& first,
              const StoppingRule& rule) {
  if (rule.repeats == 0 && first.wall >= rule.time_limit) return {{first}, "one call"};
  std::vector<double> calls{first.wall};
  double warming = first.wall;
  while (!warmed_up(calls, warming, rule.time_limit)) {
    calls.push_back(run_once(run, problem, o).wall);
    warming += calls.back();
  }
  Timing timing;
  std::vector<double> totals;
  const double start = now_seconds();
  for (Stop stop = Stop::not_yet; stop == Stop::not_yet; timing.stop = name_of(stop)) {
    timing.samples.push_back(run_once(run, problem, o));
    totals.push_back(timing.samples.back().split.total);
    stop = decide(rule, totals, now_seconds() - start);
  }
  return timing;
}

double median_of(const std::vector<Sample>& samples, double Split::*part) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(sample.split.*part);
  return summarize(values).median;
}

// Scales times from the case that ran to the requested one. Kernel times grow with the scores and copy times with the
// rows. The rest of the total grows with the scores. If kernels and copies overlap, the rest is negative and grows with
// the rows.
struct Growth {
  double scores = 1, rows = 1;

  Split operator()(const Split& split) const {
    Split grown = split;
    grown.kernel *= scores;
    grown.to_device *= rows;
    grown.to_host *= rows;
    const double rest = split.total - split.kernel - split.to_device - split.to_host;  // negative if parts overlap
    grown.total = grown.kernel + grown.to_device + grown.to_host + rest * (rest < 0 ? rows : scores);
    return grown;
  }
};

void add_times(Json& row, Timing timing, const Growth& growth) {
  std::vector<double> totals;
  for (Sample& sample : timing.samples) {
    sample.split = growth(sample.split);
    totals.push_back(sample.split.total);
  }
  const Summary summary = summarize(totals);
  row.set("seconds", summary.median);
  row.set("statistics", summary_json(summary).set("stopped_by", timing.stop));
  Json split = Json::object();
  const std::pair<const char*, double Split::*> parts[] = {
      {"allocate", &Split::allocate},   {"create", &Split::create}, {"pin", &Split::pin},
      {"to_device", &Split::to_device}, {"kernel", &Split::kernel}, {"to_host", &Split::to_host}};
  for (const auto& [name, part] : parts) split.set(name, median_of(timing.samples, part));
  row.set("split", split);
  const Launches& launches = timing.samples.front().split.launches;
  if (launches.count > 0) row.set("launches", launches.count).set("shared_bytes", launches.shared_bytes);
}

}  // namespace

const Subject& Subjects::of(const CourseCase& size) {
  std::unique_ptr<Subject>& made = made_[{size.batch, size.rows, size.dim}];
  if (!made) made = std::make_unique<Subject>(size);
  return *made;
}

Json case_json(const CourseCase& size) {
  return Json::object({{"name", size.name}, {"batch", size.batch}, {"rows", size.rows}, {"dim", size.dim}});
}

Json measure(const Candidate& candidate, const CourseCase& size, Subjects& subjects, const Settings& settings) {
  Json row = candidate.row;
  row.set("case", case_json(size));
  row.set("flops", size.flops());
  try {
    const CourseCase run_size = fitting(candidate.run, size, subjects, settings.limit);
    const Subject& subject = subjects.of(run_size);
    const RungProblem problem = subject.inputs.problem();
    std::vector<float> o(static_cast<std::size_t>(problem.elements()), std::numeric_limits<float>::quiet_NaN());
    const Sample first = run_once(candidate.run, problem, o);
    const double error = subject.answer.largest_error(o.data());
    row.set("status", error <= solve::kTolerance ? "ok" : "wrong");
    row.set("max_error", error);  // null if it is not finite
    row.set("rows_checked", subject.answer.rows());
    if (error <= solve::kTolerance) {
      const Growth growth{size.scores() / run_size.scores(),
                          1.0 * size.batch * size.rows / (1.0 * run_size.batch * run_size.rows)};
      add_times(row, sample(candidate.run, problem, o, first, settings.rule), growth);
      if (growth.scores != 1) row.set("scaled_from", case_json(run_size));
    }
  } catch (const Error& error) {
    row.set("status", "failed");
    row.set("reason", error.what());
  } catch (const std::bad_alloc&) {
    row.set("status", "failed");
    row.set("reason", "out of host memory");
  }
  return row;
}

}  // namespace strobe::lab
