// Implements the reader and the charts of training logs. Logs are untrusted, so the range of every value is checked.
#include "report/training_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "core/fail.h"
#include "core/json_lines.h"
#include "core/printable.h"
#include "core/short_number.h"
#include "results/escape.h"
#include "results/ranges.h"

namespace strobe::report {
namespace {

constexpr std::uintmax_t kMostLogBytes = std::uintmax_t{1} << 30;
constexpr std::size_t kMostLogPoints = 600;         // per line of a chart
constexpr Range kLossRange{1e-30, 1e30, true, ""};  // also of learning rates
constexpr std::string_view kRowBegin = "{\"step\":";

std::optional<double> value_of(const Json& row, std::string_view key, const Range& range) {
  const Json* value = row.find(key);
  if (!value || value->is_null()) return std::nullopt;
  return checked_number(key, *value, range);
}

void add_row(const Json& row, TrainingLog& log) {
  if (!row.is_object() || !row.find("step")) fail(ErrorCode::invalid_argument, "no \"step\": not a row of a log");
  const double step = checked_number("step", row.at("step"), kCountRange);
  if (const std::optional<double> loss = value_of(row, "validation_loss", kLossRange)) {
    log.validations.push_back({step, *loss});
    return;
  }
  log.steps.push_back({.step = step,
                       .loss = value_of(row, "loss", kLossRange),
                       .learning_rate = value_of(row, "lr", kLossRange),
                       .seconds = value_of(row, "seconds", kSecondsRange),
                       .tokens = value_of(row, "tokens", kCountRange)});
}

using StepValue = std::function<std::optional<double>(const TrainingLog::Step&)>;

std::optional<double> rate_of(const TrainingLog::Step& step) {
  if (!step.tokens || !step.seconds || *step.seconds <= 0) return std::nullopt;
  return *step.tokens / *step.seconds;
}

// Returns the points of a line: the means of equal groups of steps, each at its last step.
std::vector<Point> points_of(const TrainingLog& log, const StepValue& value) {
  const std::size_t size = (log.steps.size() + kMostLogPoints - 1) / kMostLogPoints;
  std::vector<Point> points;
  for (std::size_t begin = 0; begin < log.steps.size(); begin += size) {
    const std::size_t end = std::min(log.steps.size(), begin + size);
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const std::optional<double> one = value(log.steps[i]);
      if (!one) continue;
      sum += *one;
      ++count;
    }
    if (count == 0) continue;
    const double step = log.steps[end - 1].step, mean = sum / static_cast<double>(count);
    points.push_back({step, mean, fmt::format("{}, step {:.0f}: {}", log.name, step, short_number(mean))});
  }
  return points;
}

struct Chart {
  const char *id, *title, *axis, *file;
  StepValue value;
};

const std::vector<Chart>& log_charts() {
  static const std::vector<Chart> kCharts = {
      {"loss", "Loss", "loss", "loss.csv", [](const TrainingLog::Step& step) { return step.loss; }},
      {"learning-rate", "Learning rate", "learning rate", "learning_rate.csv",
       [](const TrainingLog::Step& step) { return step.learning_rate; }},
      {"tokens-per-second", "Tokens per second", "tokens/s", "tokens_per_second.csv", rate_of},
  };
  return kCharts;
}

bool is_loss(const Chart& chart) { return std::string_view(chart.id) == "loss"; }

std::string number(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; }

}  // namespace

bool is_training_log(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::ifstream file(path, std::ios::binary);
  std::string begin(kRowBegin.size(), '\0');
  return file.read(begin.data(), static_cast<std::streamsize>(begin.size())) && begin == kRowBegin;
}

TrainingLog parse_training_log(std::string_view text, const std::string& name) {
  TrainingLog log{.name = printable(name, std::string_view::npos), .steps = {}, .validations = {}};
  for_each_whole_line(text, kRowBegin, name, [&](std::string_view line, int number) {
    try {
      add_row(Json::parse(line), log);
    } catch (const Error& error) {
      fail(ErrorCode::invalid_argument, "{}, line {}: {}", printable(name), number, error.what());
    }
  });
  if (log.steps.empty()) fail(ErrorCode::invalid_argument, "{}: a training log without steps", printable(name));
  return log;
}

TrainingLog read_training_log(const std::string& path) {
  std::error_code error;
  if (std::filesystem::file_size(path, error) > kMostLogBytes) {
    fail(ErrorCode::invalid_argument, "{}: more than {} bytes", printable(path), kMostLogBytes);
  }
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return parse_training_log(text, path);
}

std::vector<Figure> training_figures(std::span<const TrainingLog> logs) {
  std::vector<Figure> figures;
  for (const Chart& chart : log_charts()) {
    Figure figure{.id = chart.id,
                  .title = chart.title,
                  .section = "Training",
                  .view = fmt::format("{} against the step", chart.axis),
                  .x = {"step", Scale::linear},
                  .y = {chart.axis, Scale::linear}};
    std::size_t longest = 0;
    int color = 0;
    for (const TrainingLog& log : logs) {
      std::vector<Point> points = points_of(log, chart.value);
      longest = std::max(longest, log.steps.size());
      if (!points.empty()) {
        figure.series.push_back({.name = log.name, .color = color++ % kColors, .mark = Mark::line, .points = points});
      }
      if (!is_loss(chart) || log.validations.empty()) continue;
      Series validation{.name = log.name + ", validation", .color = color++ % kColors, .mark = Mark::line};
      for (const TrainingLog::Validation& one : log.validations) {
        validation.points.push_back(
            {one.step, one.loss,
             fmt::format("{}, step {:.0f}: {}", validation.name, one.step, short_number(one.loss))});
      }
      figure.series.push_back(std::move(validation));
    }
    if (figure.series.empty()) continue;
    const std::size_t group = (longest + kMostLogPoints - 1) / kMostLogPoints;
    figure.caption = group <= 1 ? "every step" : fmt::format("each point is the mean of up to {} steps", group);
    figures.push_back(std::move(figure));
  }
  return figures;
}

std::vector<std::pair<std::string, std::string>> training_tables(std::span<const TrainingLog> logs) {
  std::vector<std::pair<std::string, std::string>> tables;
  for (const Chart& chart : log_charts()) {
    const std::string column = std::string(chart.file).substr(0, std::string_view(chart.file).find('.'));
    std::string text = kTrainingTableMark + column + (is_loss(chart) ? ",validation_loss\n" : "\n");
    std::size_t values = 0;
    for (const TrainingLog& log : logs) {
      auto validation = log.validations.begin();
      for (const TrainingLog::Step& step : log.steps) {
        const std::optional<double> value = chart.value(step);
        values += value ? 1 : 0;
        text += fmt::format("{},{:.0f},{}", csv_text(log.name), step.step, number(value));
        if (is_loss(chart)) {
          while (validation != log.validations.end() && validation->step < step.step) ++validation;
          const bool has_one = validation != log.validations.end() && validation->step == step.step;
          text += "," + number(has_one ? std::optional(validation->loss) : std::nullopt);
        }
        text += "\n";
      }
    }
    if (values > 0) tables.emplace_back(chart.file, std::move(text));
  }
  return tables;
}

}  // namespace strobe::report
