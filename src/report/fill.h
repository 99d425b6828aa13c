// Pages of page/ with their parts put in.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace strobe::report {

using PagePart = std::pair<std::string_view, std::string>;  // name, text

// Replaces {{name}} by its text; what a text brings along is not looked at again.
std::string fill(std::string_view page, std::span<const PagePart> parts);

}  // namespace strobe::report
