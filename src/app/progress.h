// Progress of long commands: a bar on a terminal, and one line with the time left.
#pragma once

#include <cstddef>
#include <string>

namespace strobe {

// "[######------] 10/20"
std::string bar_text(std::size_t done, std::size_t total);

// "2 min 5 s"
std::string duration_text(double seconds);

// show_progress, truncated to the terminal's width.
void show_fitting_progress(std::string text);

// Prints once on standard error how long a command will take, if that is more than a minute. Extrapolates the rate so
// far.
class Forecast {
 public:
  explicit Forecast(const char* of = "") : of_(of) {}  // name of the part that the forecast is for; "": the command
  void print_once(double seconds_left);

  static constexpr double kLong = 60;  // seconds

 private:
  const char* of_;
  bool printed_ = false;
};

// The same forecast for work whose amount is known, in any unit.
class WorkForecast {
 public:
  explicit WorkForecast(double work) : left_(work) {}

  // Seconds 0 means that this part was skipped or does not predict the others.
  void done(double work, double seconds);

 private:
  Forecast forecast_;
  double left_, measured_ = 0;  // work; seconds
};

}  // namespace strobe
