// Implements fill(), which replaces placeholders in page templates.
#include "report/fill.h"

#include <algorithm>

#include "core/fail.h"

namespace strobe::report {

std::string fill(std::string_view page, std::span<const PagePart> parts) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t begin = page.find("{{", at);
    if (begin == std::string_view::npos) return out.append(page.substr(at));
    const std::size_t end = page.find("}}", begin);
    const std::string_view name = page.substr(begin + 2, end - begin - 2);
    out.append(page.substr(at, begin - at));
    const auto part = std::find_if(parts.begin(), parts.end(), [&](const auto& one) { return one.first == name; });
    if (part == parts.end()) fail(ErrorCode::runtime, "report: the page has an unknown part \"{}\"", name);
    out.append(part->second);
    at = end + 2;
  }
}

}  // namespace strobe::report
