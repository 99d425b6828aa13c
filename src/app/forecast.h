// How long a command that has begun will go on, told on the standard error where that is more than a minute: once, by
// what it has measured of itself.
#pragma once

namespace strobe {

class Forecast {
 public:
  explicit Forecast(const char* of = "") : of_(of) {}  // what ends then; "": the command
  void tell(double seconds_left);

  static constexpr double kLong = 60;  // seconds

 private:
  const char* of_;
  bool told_ = false;
};

// Of work that is known beforehand, in any unit, done piece by piece.
class WorkForecast {
 public:
  explicit WorkForecast(double work) : left_(work) {}

  // The next piece was done; 0 seconds: it was left out, or tells nothing of the others.
  void done(double work, double seconds);

 private:
  Forecast forecast_;
  double left_, measured_ = 0;  // work; seconds
};

}  // namespace strobe
