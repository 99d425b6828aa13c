// Figures as SVG files, for documents and for viewing without JavaScript. `strobe report` writes them.
#pragma once

#include <string>

#include "report/figure.h"

namespace strobe::report {

// A complete file with a white background.
std::string figure_svg(const Figure& figure);

// "time-seq_len-forward-bf16-causal-on". Equal for views that differ in sizes; only one of them is written.
std::string file_name(const Figure& figure);

}  // namespace strobe::report
