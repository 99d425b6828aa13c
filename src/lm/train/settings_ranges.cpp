#include "lm/train/settings_ranges.h"

#include <algorithm>

#include "core/fail.h"

namespace strobe::lm {

std::string shown(const char* field, Source source) {
  if (source == Source::file) return field;
  std::string flag = std::string("--") + field;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::int64_t checked(const IntegerRange& range, std::int64_t value, Source source) {
  if (value >= range.least && value <= range.most) return value;
  fail(ErrorCode::invalid_argument, "{} {}: valid: {} to {}", shown(range.field, source), value, range.least,
       range.most);
}

double checked(const NumberRange& range, double value, Source source) {
  const bool above = range.excludes_least ? value > range.least : value >= range.least;
  if (above && value < range.below) return value;
  fail(ErrorCode::invalid_argument, "{} {}: valid: {} {} to below {}", shown(range.field, source), value,
       range.excludes_least ? "above" : "from", range.least, range.below);
}

}  // namespace strobe::lm
