// Maps values to pixels along one axis and places its ticks. svg.cpp and memory_map.cpp use it.
#pragma once

#include <string>
#include <vector>

#include "report/figure.h"

namespace strobe::report {

class PlotScale {
 public:
  // `from` and `to` are the pixel positions of the axis's ends. The axis covers all `values`. Throws
  // Error(invalid_argument) if a value or tick is not finite, exceeds 1e100 in magnitude, or is below 1e-100 on a
  // logarithmic axis.
  PlotScale(const Axis& axis, const std::vector<double>& values, double from, double to);

  double at(double value) const;
  double step() const;  // pixels between adjacent words

  struct Tick {
    double at;
    std::string text;
  };
  std::vector<Tick> ticks() const;  // the axis's words or ticks; if it has none, at most 60 automatic ones

 private:
  void check(const std::vector<double>& values) const;
  std::vector<double> linear_ticks() const;
  std::vector<double> logarithmic_ticks() const;

  Axis axis_;
  double low_ = 0, high_ = 1, from_, to_;
};

}  // namespace strobe::report
