// Figures as SVG files: for documents and for reading without a browser. `strobe report` writes them.
#pragma once

#include <string>

#include "report/figure.h"

namespace strobe::report {

// A whole file, on white.
std::string figure_svg(const Figure& figure);

// "time-seq_len-forward-bf16-causal-on": the same for views that differ in sizes, of which one is written.
std::string file_name(const Figure& figure);

}  // namespace strobe::report
