// Tests report/plot_scale: axes have few and finite ticks; values that cannot be drawn are rejected.
#include "report/plot_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "strobe/error.h"

namespace strobe::report {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(PlotScale, EveryRangeHasFewFiniteTicks) {
  const std::vector<double> values[] = {
      {0},           {1e-320}, {5e-324, 1e100}, {1e100}, {-1e100, 1e100}, {1e-100, 1e100}, {1e-12, 1e9},
      {1e-300, 3.1}, {1, 1},   {0.5, 7, 9},     {}};
  for (const Scale scale : {Scale::linear, Scale::logarithmic}) {
    for (const std::vector<double>& some : values) {
      const bool fits =
          scale == Scale::linear || std::all_of(some.begin(), some.end(), [](double value) { return value >= 1e-100; });
      if (!fits) continue;
      const PlotScale plot({.title = "t", .scale = scale}, some, 0, 100);
      const std::vector<PlotScale::Tick> ticks = plot.ticks();
      EXPECT_LE(ticks.size(), 60u);
      for (const PlotScale::Tick& tick : ticks) EXPECT_TRUE(std::isfinite(tick.at));
      for (const double value : some) EXPECT_TRUE(std::isfinite(plot.at(value))) << value;
    }
  }
}

TEST(PlotScale, LargeAutomaticTicksHaveAPrefix) {
  const auto last = [](const Axis& axis, double most) {
    return PlotScale(axis, {1, most}, 0, 100).ticks().back().text;
  };
  EXPECT_EQ(last({.title = "t"}, 5000), "4000");
  EXPECT_EQ(last({.title = "t"}, 50000), "40k");
  EXPECT_EQ(last({.title = "t"}, 1.5e6), "1.5M");
  EXPECT_EQ(last({.title = "t", .ticks = {65536}}, 65536), "65536");  // sizes are exact
}

TEST(PlotScale, RejectsValuesThatCannotBeDrawn) {
  for (const double value : {kInfinity, -kInfinity, std::nan(""), 1e306}) {
    EXPECT_THROW(PlotScale({.title = "t", .scale = Scale::linear}, {1, value}, 0, 100), Error) << value;
    EXPECT_THROW(PlotScale({.title = "t", .scale = Scale::logarithmic}, {1, value}, 0, 100), Error) << value;
  }
  for (const double value : {0.0, -1.0, 1e-320}) {
    EXPECT_THROW(PlotScale({.title = "t", .scale = Scale::logarithmic}, {1, value}, 0, 100), Error) << value;
  }
  EXPECT_THROW(PlotScale({.title = "t", .ticks = {kInfinity}}, {1}, 0, 100), Error);
}

}  // namespace
}  // namespace strobe::report
