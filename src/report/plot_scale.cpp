// Linear scales begin at 0; logarithmic ones keep a little room at both ends.
#include "report/plot_scale.h"

#include <algorithm>
#include <cmath>

#include "core/short_number.h"

namespace strobe::report {
namespace {

// 1, 2 or 5 times a power of ten, so that about `count` steps make `range`.
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

}  // namespace

PlotScale::PlotScale(const Axis& axis, std::vector<double> values, double from, double to)
    : axis_(axis), from_(from), to_(to) {
  if (axis.scale == Scale::words) {
    low_ = -0.5;
    high_ = static_cast<double>(axis.words.size()) - 0.5;
    return;
  }
  if (values.empty()) return;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  if (axis.scale == Scale::linear) {
    high_ = *most > 0 ? 1.08 * *most : 1;
    return;
  }
  const double range = std::log(*most / *least), two_ticks = std::log(6.25);  // neighbours are 2.5 times apart at most
  double room = std::max(0.08 * range, 0.12);
  if (axis.ticks.empty()) room = std::max(room, 0.5 * (two_ticks - range));
  low_ = std::log(*least) - room;
  high_ = std::log(*most) + room;
}

double PlotScale::at(double value) const {
  const double place = axis_.scale == Scale::logarithmic ? std::log(value) : value;
  return from_ + (to_ - from_) * (place - low_) / (high_ - low_);
}

double PlotScale::step() const { return std::fabs(to_ - from_) / (high_ - low_); }

std::vector<PlotScale::Tick> PlotScale::ticks() const {
  std::vector<Tick> out;
  if (axis_.scale == Scale::words) {
    for (std::size_t i = 0; i < axis_.words.size(); ++i) out.push_back({at(static_cast<double>(i)), axis_.words[i]});
  } else if (!axis_.ticks.empty()) {
    for (const double tick : axis_.ticks) out.push_back({at(tick), tick_text(tick)});
  } else if (axis_.scale == Scale::linear) {
    const double step = round_step(high_, 5);
    for (double tick = 0; tick <= high_; tick += step) out.push_back({at(tick), tick_text(tick)});
  } else {
    const bool wide = high_ - low_ > std::log(500.0);
    for (double power = std::pow(10, std::floor(low_ / std::log(10))); std::log(power) <= high_; power *= 10) {
      for (const double factor : {1., 2., 5.}) {
        const double tick = factor * power;
        if (std::log(tick) >= low_ && std::log(tick) <= high_ && (factor == 1 || !wide)) {
          out.push_back({at(tick), tick_text(tick)});
        }
      }
    }
  }
  return out;
}

}  // namespace strobe::report
