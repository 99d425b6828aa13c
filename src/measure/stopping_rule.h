// Decides when to stop warming up and when to stop sampling. bench/runner.cpp calls this after every round.
#pragma once

#include <span>

namespace strobe {

struct StoppingRule {
  int repeats = 0;         // exact number of samples; 0: until the interval is narrow enough
  int least_samples = 30;  // before the interval is checked
  double interval = 0.01;  // half width of the median's 95 % interval, relative to the median
  double time_limit = 20;  // seconds for all series of a configuration, without the waits between them
  int least_at_limit = 3;  // minimum samples, taken even past the limit
};

enum class Stop { not_yet, repeats, interval, time_limit };

constexpr const char* name_of(Stop stop) {
  switch (stop) {
    case Stop::not_yet: return "not yet";
    case Stop::repeats: return "repeats";
    case Stop::interval: return "interval";
    case Stop::time_limit: return "time limit";
  }
  return "unknown";
}

// Decides whether a series has enough samples, `elapsed` seconds after the first sample of any series.
Stop decide(const StoppingRule& rule, std::span<const double> samples, double elapsed);

// Decides whether the warm-up is over: after at least 3 calls and 200 ms, as soon as the last three calls agree within
// 10 %. Ends at the latest 1 s later, and never runs beyond `limit` seconds after the first call.
bool warmed_up(std::span<const double> calls, double elapsed, double limit);

}  // namespace strobe
