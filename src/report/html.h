// Writes the report as one HTML file that works offline.
#pragma once

#include <span>
#include <string>

#include "report/figure.h"

namespace strobe::report {

// Throws Error(unsupported) if the build has no chart library.
std::string report_html(std::span<const Cell> cells, std::span<const Figure> figures);

}  // namespace strobe::report
