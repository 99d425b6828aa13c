// Writes the report as one HTML file that works offline, and fills the page templates.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "report/figure.h"

namespace strobe::report {

// Throws Error(unsupported) if the build has no chart library.
std::string report_html(std::span<const Cell> cells, std::span<const Figure> figures);

using PagePart = std::pair<std::string_view, std::string>;  // name, text

// Replaces each {{name}} by the text of that part. Does not replace {{...}} inside a part.
std::string fill(std::string_view page, std::span<const PagePart> parts);

}  // namespace strobe::report
