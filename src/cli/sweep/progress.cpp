// Bar, lines and the time left.
#include "cli/sweep/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/progress.h"
#include "app/terminal.h"
#include "bench/sweep/prediction.h"
#include "measure/clock.h"

namespace strobe::cli {
namespace {

constexpr double kRedraw = 0.1;       // seconds between two pictures of the bar
constexpr double kPriorShare = 0.05;  // a twentieth of the sweep says as much as its prediction

// The median, as in every table; the rows' time(s) is the mean.
std::string milliseconds(const Json& row, const char* region) {
  const Json& series = row.at("statistics").at(region);
  return series.is_null() ? "-" : fmt::format("{:.4g} ms", 1e3 * series.at("median(s)").as_number());
}

}  // namespace

std::string row_text(const Json& row, const bench::Problem& problem) {
  const std::string& status = row.at("status").as_string();
  std::string text = fmt::format("{} {} {}: ", status, row.at("implementation").as_string(), bench::describe(problem));
  if (status != "ok") return text + row.at("reason").as_string();
  text += fmt::format("forward {}, backward {}", milliseconds(row, "forward"), milliseconds(row, "backward"));
  const Json& memory = row.at("peak_memory_usage(MB)");
  return memory.is_null() ? text : text + fmt::format(", {:.1f} MiB", memory.as_number());
}

SweepProgress::SweepProgress(std::size_t total, const std::vector<bench::Problem>& left, const StoppingRule& rule)
    : total_(total),
      done_(total - bench::count_cells(left)),
      rule_(rule),
      start_(now_seconds()),
      problem_start_(start_) {
  for (const bench::Problem& problem : left) predicted_left_ += bench::predicted_seconds(problem, rule);
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

void SweepProgress::problem(const bench::Problem& problem) {
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
  show_progress("");
  print(fmt::format("[{}/{}] {}; {} left\n", done_, total_, row_text(row, *problem_), duration_text(seconds_left())));
}

void SweepProgress::draw(const std::string& doing) {
  drawn_ = now_seconds();
  show_fitting_progress(fmt::format("{}, {} left; {}; {}", bar_text(done_, total_), duration_text(seconds_left()),
                                    problem_ ? bench::describe(*problem_) : "", doing));
}

}  // namespace strobe::cli
