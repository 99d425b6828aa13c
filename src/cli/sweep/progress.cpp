// Implements the progress bar, the line per row, the forecast and --dry-run.
#include "cli/sweep/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "app/progress.h"
#include "app/terminal.h"
#include "bench/sweep/problem.h"
#include "core/clock.h"
#include "core/counted.h"
#include "core/short_number.h"
#include "measure/system_info.h"
#include "results/table.h"

namespace strobe::cli {
namespace {

constexpr double kRedraw = 0.1;       // seconds between two updates of the bar
constexpr double kPriorShare = 0.05;  // weight of the prediction, as a share of the predicted time of the sweep

// Returns the median, as in the tables of `strobe bench`; time(s) in the row is the mean.
std::string milliseconds(const Json& row, const char* region) {
  const Json& series = row.at("statistics").at(region);
  return series.is_null() ? "-" : fmt::format("{:.4g} ms", 1e3 * series.at("median_s").as_number());
}

// Matmul rate per data type: measured at the first use, or an assumed rate with --quick.
class MatmulRates {
 public:
  explicit MatmulRates(bool quick) : depth_(quick ? bench::Depth::none : bench::Depth::brief) {}

  double of(const bench::AttentionCase& one) {
    const auto [place, is_new] = rates_.try_emplace(one.dtype);
    if (is_new) {
      show_progress("measure the machine's ceilings");
      place->second =
          bench::ceilings_for({&one, 1}, depth_).matmul(one.dtype).value_or(bench::assumed_matmul_rate(one.device));
      show_progress("");
    }
    return place->second;
  }

 private:
  bench::Depth depth_;
  std::map<DType, double> rates_;
};

std::string note_on(const bench::AttentionCase& one, const bench::PredictedMemory& memory, const RunFlags& how,
                    bool known) {
  if (known) return "has a row";
  if (!memory.refusal.empty()) return "unsupported: " + memory.refusal;
  const std::int64_t free =
      how.run.memory_limit.value_or(one.device == Device::cpu ? read_memory_info().available : INT64_MAX);
  return memory.bytes && *memory.bytes > free ? "will not fit in memory" : "";
}

}  // namespace

std::string row_text(const Json& row, const bench::SweepProblem& problem) {
  const std::string& status = row.at("status").as_string();
  std::string text = fmt::format("{} {} {}: ", status, row.at("implementation").as_string(), bench::describe(problem));
  if (status != "ok") return text + row.at("reason").as_string();
  text += fmt::format("forward {}, backward {}", milliseconds(row, "forward"), milliseconds(row, "backward"));
  const Json& memory = row.at("peak_memory_usage(MB)");
  return memory.is_null() ? text : text + fmt::format(", {:.1f} MiB", memory.as_number());
}

SweepProgress::SweepProgress(std::size_t total, const std::vector<bench::SweepProblem>& left, const StoppingRule& rule)
    : total_(total),
      done_(total - bench::count_cells(left)),
      rule_(rule),
      start_(now_seconds()),
      problem_start_(start_) {
  for (const bench::SweepProblem& problem : left) predicted_left_ += bench::predicted_seconds(problem, rule);
  prior_ = 1e-3 + kPriorShare * predicted_left_;
}

double SweepProgress::seconds_left() const {
  const double factor = (problem_start_ - start_ + prior_) / (predicted_done_ + prior_);
  const double current = factor * predicted_current_ - (now_seconds() - problem_start_);
  return factor * std::max(0.0, predicted_left_) + std::max(0.0, current);
}

void SweepProgress::end_problem() {
  predicted_done_ += std::exchange(predicted_current_, 0);
  problem_start_ = now_seconds();
}

void SweepProgress::problem(const bench::SweepProblem& problem) {
  end_problem();
  problem_ = &problem;
  rows_left_ = problem.implementations.size();
  predicted_current_ = bench::predicted_seconds(problem, rule_);
  predicted_left_ -= predicted_current_;
  draw("start");
}

void SweepProgress::step(const std::string& step, const std::string& implementation) {
  if (now_seconds() - drawn_ >= kRedraw) draw(implementation.empty() ? step : step + " " + implementation);
}

void SweepProgress::row(const Json& row) {
  ++done_;
  if (--rows_left_ == 0) end_problem();
  const bool fine = row.at("status").as_string() == "ok";
  if (shows_progress() && fine) return draw("written");
  if (is_quiet() && fine) return;
  show_progress("");
  print(fmt::format("[{}/{}] {}; {} left\n", done_, total_, row_text(row, *problem_), duration_text(seconds_left())));
}

void SweepProgress::draw(const std::string& doing) {
  drawn_ = now_seconds();
  show_fitting_progress(fmt::format("{}, {} left; {}; {}", bar_text(done_, total_), duration_text(seconds_left()),
                                    problem_ ? bench::describe(*problem_) : "", doing));
}

std::string dry_run_text(const SweepPlan& plan,
                         const std::function<bool(const bench::SweepProblem&, const std::string& name)>& is_known) {
  Table table{
      .columns = {"cell", left("problem"), left("implementation"), "call ms", "cell s", "peak MiB", left("note")}};
  MatmulRates rates(plan.how.quick);
  const StoppingRule& rule = plan.how.run.rule;
  std::size_t cells = 0, left = 0;
  double seconds = 0;
  for (const bench::SweepProblem& problem : plan.problems) {
    for (const std::string& name : problem.implementations) {
      const bench::PredictedMemory memory = bench::predicted_memory(problem.one, name);
      const double rate = rates.of(problem.one);
      const bool known = is_known(problem, name);
      const double cell = bench::predicted_seconds(problem.one, name, rule, rate);
      const std::string note = note_on(problem.one, memory, plan.how, known);
      if (!known) ++left;
      if (note.empty()) seconds += cell;
      table.cells.push_back(
          {std::to_string(++cells), bench::describe(problem), name,
           short_number(1e3 * bench::predicted_call(problem.one, name, rate)), fmt::format("{:.1f}", cell),
           memory.bytes ? fmt::format("{:.1f}", static_cast<double>(*memory.bytes) / (1 << 20)) : "-", note});
    }
  }
  const std::string of_all = plan.cells_of_all == cells ? "" : fmt::format(" of the grid's {}", plan.cells_of_all);
  return table.text() +
         fitting_line(fmt::format("{}{}, {} to measure, about {} in all; nothing was measured or written",
                                  counted(cells, plan.unit()), of_all, left, duration_text(seconds)));
}

}  // namespace strobe::cli
