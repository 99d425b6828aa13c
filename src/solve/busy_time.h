// Intervals in which a stage was at work, and the time that several stages took together, overlaps counted once.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

namespace strobe::solve {

class BusyTime {
 public:
  void add(double begin, double end) { intervals_.emplace_back(begin, end); }

  double sum() const {
    double seconds = 0;
    for (const auto& [begin, end] : intervals_) seconds += end - begin;
    return seconds;
  }

  // Seconds in which at least one of them was at work.
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
