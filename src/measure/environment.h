// Machine, system and libraries as one JSON object: inside every result, and what `strobe env --json` prints.
#pragma once

#include <string>

#include "core/json.h"

namespace strobe {

// Without measured rates: those are bench/ceilings.h's.
Json environment_json();

// Git revision that was built, with "+changes" where the tree had any; "unknown" outside of a checkout.
const char* build_revision();
const char* build_version();
std::string build_compiler();

// "0.3.21 (NEOVERSEV1)"
std::string blas_version();

}  // namespace strobe
