// From values to pixels along one axis, with its ticks. svg.cpp uses it.
#pragma once

#include <string>
#include <vector>

#include "report/figure.h"

namespace strobe::report {

class PlotScale {
 public:
  // `from` and `to` are pixels of the axis' two ends; `values` are all that must be on it.
  PlotScale(const Axis& axis, std::vector<double> values, double from, double to);

  double at(double value) const;
  double step() const;  // pixels between neighbouring words

  struct Tick {
    double at;
    std::string text;
  };
  std::vector<Tick> ticks() const;

 private:
  Axis axis_;
  double low_ = 0, high_ = 1, from_, to_;
};

}  // namespace strobe::report
