#include "app/forecast.h"

#include <fmt/format.h>

#include "app/progress.h"
#include "app/terminal.h"

namespace strobe {
namespace {

constexpr double kSettled = 2;  // seconds of work, after which what the first calls load no longer counts

}  // namespace

void Forecast::tell(double seconds_left) {
  if (told_ || seconds_left <= kLong) return;
  told_ = true;
  print_aside(note_lines({fmt::format("about {} left{}, at the rate so far", duration_text(seconds_left), of_)}));
}

void WorkForecast::done(double work, double seconds) {
  left_ -= work;
  measured_ += seconds;
  if (measured_ >= kSettled) forecast_.tell(left_ * seconds / work);
}

}  // namespace strobe
