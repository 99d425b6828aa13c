// Replaces placeholders in the templates of page/.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace strobe::report {

using PagePart = std::pair<std::string_view, std::string>;  // name, text

// Replaces each {{name}} by the text of that part. Does not replace {{...}} inside a part.
std::string fill(std::string_view page, std::span<const PagePart> parts);

}  // namespace strobe::report
