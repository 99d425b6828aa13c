// Three-stage pipeline over the chunks of a file: while chunk c is computed, chunk c + 1 is loaded and chunk c - 1 is
// stored. Both solvers use it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <utility>
#include <vector>

namespace strobe::solve {

// Functions of the stages. Each is called with chunks 0, 1, 2, ... in order. load and store have one thread each;
// compute runs on the calling thread.
struct Stages {
  std::function<void(std::int64_t chunk)> load, compute, store;
};

// compute(c) starts after load(c) has returned, and store(c) after compute(c). load(c + in_flight) starts after
// store(c), so buffer c % in_flight belongs to one chunk at a time. Returns when all chunks are stored. After an
// exception no further stage starts, and this function rethrows the first exception.
void run_pipeline(std::int64_t chunks, std::int64_t in_flight, const Stages& stages);

// Records the time intervals in which a stage was busy.
class BusyTime {
 public:
  void add(double begin, double end) { intervals_.emplace_back(begin, end); }

  double sum() const {
    double seconds = 0;
    for (const auto& [begin, end] : intervals_) seconds += end - begin;
    return seconds;
  }

  // Returns the seconds in which at least one of the stages was busy.
  static double together(std::initializer_list<const BusyTime*> stages) {
    std::vector<std::pair<double, double>> all;
    for (const BusyTime* stage : stages) all.insert(all.end(), stage->intervals_.begin(), stage->intervals_.end());
    std::sort(all.begin(), all.end());
    double seconds = 0, covered = 0;
    bool first = true;
    for (const auto& [begin, end] : all) {
      if (first) covered = begin;
      first = false;
      seconds += std::max(0.0, end - std::max(begin, covered));
      covered = std::max(covered, end);
    }
    return seconds;
  }

 private:
  std::vector<std::pair<double, double>> intervals_;
};

}  // namespace strobe::solve
