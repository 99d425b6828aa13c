// Checks the ranges of configuration fields and names the fields in errors.
#include "app/fields.h"

#include <algorithm>

namespace strobe {

std::string shown(std::string_view key, Source source) {
  if (source == Source::file) return std::string(key);
  std::string flag = "--" + std::string(key);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

std::int64_t checked(const IntegerRange& range, std::int64_t value, Source source) {
  if (value >= range.least && value <= range.most) return value;
  fail(ErrorCode::invalid_argument, "{} {}: valid: {} to {}", shown(range.key, source), value, range.least, range.most);
}

double checked(const NumberRange& range, double value, Source source) {
  if (value >= range.least && value < range.below) return value;
  fail(ErrorCode::invalid_argument, "{} {}: valid: at least {}, below {}", shown(range.key, source), value, range.least,
       range.below);
}

}  // namespace strobe
