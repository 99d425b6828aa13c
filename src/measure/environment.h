// Describes machine, system and libraries as a JSON object, for benchmark results and `strobe env --json`.
#pragma once

#include <string>

#include "core/json.h"

namespace strobe {

// Returns the environment. It has no measured rates; bench/ceilings.h adds them.
Json environment_json();

// Git revision of this build, with "+changes" if the tree was modified; "unknown" outside a checkout.
const char* build_revision();
const char* build_version();
std::string build_compiler();

// Version and core name of OpenBLAS: "0.3.21 (NEOVERSEV1)".
std::string blas_version();

}  // namespace strobe
