// Implements progress bars, durations and forecasts.
#include "app/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>

#include "app/terminal.h"

namespace strobe {
namespace {

constexpr std::size_t kBar = 24;  // characters
constexpr double kSettled = 2;    // seconds of work before a forecast: the first calls are slower

}  // namespace

std::string bar_text(std::size_t done, std::size_t total) {
  const std::size_t filled = total == 0 ? kBar : kBar * done / total;
  return fmt::format("[{}{}] {}/{}", std::string(filled, '#'), std::string(kBar - filled, '-'), done, total);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

void show_fitting_progress(std::string text) {
  const std::size_t columns = terminal_columns(STDERR_FILENO), width = (columns > 0 ? columns : 80) - 1;
  if (text.size() > width) text.resize(width);
  show_progress(text);
}

void Forecast::print_once(double seconds_left) {
  if (printed_ || seconds_left <= kLong) return;
  printed_ = true;
  print_aside(note_lines({fmt::format("about {} left{}, at the rate so far", duration_text(seconds_left), of_)}));
}

void WorkForecast::done(double work, double seconds) {
  left_ -= work;
  measured_ += seconds;
  if (measured_ >= kSettled) forecast_.print_once(left_ * seconds / work);
}

}  // namespace strobe
