// Files of configurations, `--cells FILE`: on each line the text of a case (core/case_text.h), flags, or both, beyond
// the flags of the command line.
#pragma once

#include <string>

#include "cli/case_options.h"

namespace strobe::cli {

// Lines that are blank or begin with # are passed over. What holds for a whole run (--impl, --device, --threads and how
// it is measured) is refused in a line. Throws Error(invalid_argument) with the file, and the line where there is one.
Cases read_cells(const std::string& path, const CaseOptions& defaults);

}  // namespace strobe::cli
