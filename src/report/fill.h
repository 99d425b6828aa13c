// Fills the templates of page/.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace strobe::report {

using PagePart = std::pair<std::string_view, std::string>;  // name, text

// Replaces {{name}} by its text. Not recursive: {{...}} inside a text stays.
std::string fill(std::string_view page, std::span<const PagePart> parts);

}  // namespace strobe::report
