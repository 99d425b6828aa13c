// Implements PlotScale. Linear scales begin at 0; logarithmic scales have a margin at both ends.
#include "report/plot_scale.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/fail.h"
#include "core/printable.h"
#include "core/short_number.h"

namespace strobe::report {
namespace {

constexpr int kMaxTicks = 20;
constexpr double kMaxValue = 1e100, kLeastOnLogarithms = 1e-100;

// Returns 1, 2 or 5 times a power of ten, so that `range` has at most `count` steps.
double round_step(double range, int count) {
  const double raw = range / count, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1., 2., 5.}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

std::string tick_text(double value) {
  std::string text = short_number(value);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// As tick_text(), with an SI prefix from 10,000 on: "20k", "1.5M".
std::string si_text(double value) {
  constexpr std::pair<double, const char*> kPrefixes[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [factor, prefix] : kPrefixes) {
    if (std::fabs(value) >= std::max(factor, 1e4)) return tick_text(value / factor) + prefix;
  }
  return tick_text(value);
}

}  // namespace

PlotScale::PlotScale(const Axis& axis, const std::vector<double>& values, double from, double to)
    : axis_(axis), from_(from), to_(to) {
  if (axis.scale == Scale::words) {
    low_ = -0.5;
    high_ = static_cast<double>(axis.words.size()) - 0.5;
    return;
  }
  check(values);
  check(axis.ticks);
  if (values.empty()) return;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (axis.scale == Scale::linear) {
    high_ = *most > 0 ? 1.08 * *most : 1;
    return;
  }
  const double range = std::log(*most) - std::log(*least);
  const double two_ticks = std::log(6.25);  // ticks differ by a factor of at most 2.5, so a range of 2.5^2 has two
  double room = std::max(0.08 * range, 0.12);
  if (axis.ticks.empty()) room = std::max(room, 0.5 * (two_ticks - range));
  low_ = std::log(*least) - room;
  high_ = std::log(*most) + room;
}

void PlotScale::check(const std::vector<double>& values) const {
  const bool logarithmic = axis_.scale == Scale::logarithmic;
  for (const double value : values) {
    if (std::fabs(value) <= kMaxValue && (!logarithmic || value >= kLeastOnLogarithms)) continue;
    fail(ErrorCode::invalid_argument, "chart: {} on the axis \"{}\"; valid: {:g} to {:g}", value,
         printable(axis_.title), logarithmic ? kLeastOnLogarithms : -kMaxValue, kMaxValue);
  }
}

double PlotScale::at(double value) const {
  const double place = axis_.scale == Scale::logarithmic ? std::log(value) : value;
  return from_ + (to_ - from_) * (place - low_) / (high_ - low_);
}

double PlotScale::step() const { return std::fabs(to_ - from_) / (high_ - low_); }

std::vector<double> PlotScale::linear_ticks() const {
  std::vector<double> ticks;
  const double step = round_step(high_, 5);
  for (int i = 0; i < kMaxTicks && i * step <= high_; ++i) ticks.push_back(i * step);
  return ticks;
}

std::vector<double> PlotScale::logarithmic_ticks() const {
  std::vector<double> ticks;
  const bool wide = high_ - low_ > std::log(500.0);
  const int first = static_cast<int>(std::floor(low_ / std::log(10))),
            last = static_cast<int>(std::floor(high_ / std::log(10)));
  const int stride = 1 + (last - first) / kMaxTicks;
  for (int power = first; power <= last; power += stride) {
    for (const double factor : {1., 2., 5.}) {
      const double tick = factor * std::pow(10, power);
      if (std::log(tick) >= low_ && std::log(tick) <= high_ && (factor == 1 || !wide)) ticks.push_back(tick);
    }
  }
  return ticks;
}

std::vector<PlotScale::Tick> PlotScale::ticks() const {
  std::vector<Tick> out;
  if (axis_.scale == Scale::words) {
    for (std::size_t i = 0; i < axis_.words.size(); ++i) out.push_back({at(static_cast<double>(i)), axis_.words[i]});
    return out;
  }
  const std::vector<double> values = !axis_.ticks.empty()           ? axis_.ticks
                                     : axis_.scale == Scale::linear ? linear_ticks()
                                                                    : logarithmic_ticks();
  for (const double value : values) out.push_back({at(value), axis_.ticks.empty() ? si_text(value) : tick_text(value)});
  return out;
}

}  // namespace strobe::report
