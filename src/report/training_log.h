// Reads steps.jsonl, the log of `strobe lm train`, and draws it: loss, learning rate and tokens per second against the
// step.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "report/figure.h"

namespace strobe::report {

struct TrainingLog {
  struct Step {
    double step;
    std::optional<double> loss;  // absent if the step was skipped
    std::optional<double> learning_rate;
    std::optional<double> seconds;
    std::optional<double> tokens;  // of the step's batch, over all ranks
  };
  struct Validation {
    double step, loss;
  };
  std::string name;
  std::vector<Step> steps;
  std::vector<Validation> validations;
};

// Returns true if the first line is a row of a training log. Returns false for a file that cannot be read, or that is
// not a regular file.
bool is_training_log(const std::string& path);

// Reads the rows of a log; an incomplete last line is ignored, because the training may still run. Throws
// Error(invalid_argument), "FILE, line N: what is wrong".
TrainingLog read_training_log(const std::string& path);
TrainingLog parse_training_log(std::string_view text, const std::string& name);  // as read_training_log()

// Returns the charts of all logs, one line per log. A long log is drawn with the means of equal groups of steps.
std::vector<Figure> training_figures(std::span<const TrainingLog> logs);

// Returns file names and contents, one per chart, with every step: "loss.csv", "log,step,loss,validation_loss\n...".
std::vector<std::pair<std::string, std::string>> training_tables(std::span<const TrainingLog> logs);

inline constexpr const char* kTrainingTableMark = "log,step,";  // begins each of these files

}  // namespace strobe::report
