// Machine, system and libraries as one JSON object, for every result and for `strobe env --json`.
#pragma once

#include <string>

#include "core/json.h"

namespace strobe {

// Returns the environment without measured rates, which bench/ceilings.h adds.
Json environment_json();

// Git revision of this build, with "+changes" if the tree was modified; "unknown" outside a checkout.
const char* build_revision();
const char* build_version();
std::string build_compiler();

// "0.3.21 (NEOVERSEV1)"
std::string blas_version();

}  // namespace strobe
