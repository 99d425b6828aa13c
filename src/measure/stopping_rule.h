// Decides when to stop warming up and when to stop sampling.
#pragma once

#include <span>

namespace strobe {

struct StoppingRule {
  int repeats = 0;         // exact number of samples; 0: the fields below decide
  int least_samples = 30;  // minimum number before the interval is checked
  double interval = 0.01;  // half width of the median's 95 % confidence interval, relative to the median
  double time_limit = 20;  // seconds to sample all series of a case, without the waits between them
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

// Decides whether a series (the samples of one implementation) is complete. `elapsed` is the time in seconds since the
// first sample of any series.
Stop decide(const StoppingRule& rule, std::span<const double> samples, double elapsed);

// Returns true if the warm-up is over. A warm-up has at least 3 calls and lasts at least 0.2 s. It ends once the last
// three calls agree within 10 %, and at the latest after 1.2 s. After `limit` seconds, however, one call is enough.
// `calls` are the seconds of each call.
bool warmed_up(std::span<const double> calls, double elapsed, double limit);

}  // namespace strobe
