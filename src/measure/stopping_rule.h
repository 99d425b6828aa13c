// Decides when to stop warming up and when to stop sampling. bench/runner.cpp calls this after every round.
#pragma once

#include <span>

namespace strobe {

struct StoppingRule {
  int repeats = 0;         // exact number of samples; 0: the fields below decide
  int least_samples = 30;  // minimum number before the interval is checked
  double interval = 0.01;  // half width of the median's 95 % confidence interval, relative to the median
  double time_limit = 20;  // seconds to sample all series of a configuration, without the waits between them
  int least_at_limit = 3;  // minimum number of samples, taken even after time_limit
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

// Decides if a series (the samples of one implementation) is complete, `elapsed` seconds after the first sample of any
// series.
Stop decide(const StoppingRule& rule, std::span<const double> samples, double elapsed);

// Returns true if the warm-up is over: after at least 3 calls and 0.2 s, once the last three calls agree within 10 % or
// 1.2 s have elapsed. Also returns true after `limit` seconds and at least one call.
bool warmed_up(std::span<const double> calls, double elapsed, double limit);

}  // namespace strobe
