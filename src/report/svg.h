// Draws figures as SVG, for documents and for viewing without JavaScript. `strobe report` writes the files.
#pragma once

#include <string>

#include "report/figure.h"

namespace strobe::report {

// Returns a complete SVG file with a white background.
std::string figure_svg(const Figure& figure);

// Returns a file name without suffix: "time-seq_len-forward-bf16-causal-on". Views of a chart that differ only in sizes
// have the same name; only one of them is written.
std::string file_name(const Figure& figure);

}  // namespace strobe::report
