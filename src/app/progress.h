// Progress of long commands: a progress bar on a terminal, and one line with the estimated time left.
#pragma once

#include <cstddef>
#include <string>

namespace strobe {

// Returns "[######------] 10/20".
std::string bar_text(std::size_t done, std::size_t total);

// Returns a duration such as "2 min 5 s".
std::string duration_text(double seconds);

// Calls show_progress with the text truncated to the terminal's width.
void show_fitting_progress(std::string text);

// Prints once on standard error how long a command will still take, if that is more than a minute. The caller
// extrapolates the rate so far.
class Forecast {
 public:
  explicit Forecast(const char* of = "") : of_(of) {}  // text printed after "left", such as " of this launch"
  void print_once(double seconds_left);

  static constexpr double kLong = 60;  // seconds

 private:
  const char* of_;
  bool printed_ = false;
};

// Estimates the time left for work whose total is known, in any unit.
class WorkForecast {
 public:
  explicit WorkForecast(double work) : left_(work) {}

  // Reports that part of the work is done. `seconds` is 0 if the part was skipped or does not predict the others.
  void done(double work, double seconds);

 private:
  Forecast forecast_;
  double left_, measured_ = 0;  // remaining work; measured seconds
};

}  // namespace strobe
