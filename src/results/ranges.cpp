// Checks numbers against ranges.
#include "results/ranges.h"

#include "core/fail.h"
#include "core/printable.h"

namespace strobe {

std::string range_text(const Range& range) {
  return fmt::format("{}{:g} to {:g}{}{}", range.zero ? "0, or " : "", range.least, range.most, *range.unit ? " " : "",
                     range.unit);
}

double checked_number(std::string_view name, const Json& value, const Range& range) {
  if (!value.is_number() || !holds(range, value.as_number())) {
    fail(ErrorCode::invalid_argument, "{} is {}; valid: {}", printable(name), printable(value.dump(), 40),
         range_text(range));
  }
  return value.as_number();
}

}  // namespace strobe
