// Libraries of the CUDA toolkit, opened when they are first needed.
#pragma once

#include "device/shared_library.h"

namespace strobe::cuda {

// lib<name>.so.<major>: the system's, else that of the toolkit which this was built with. Throws Error(unsupported)
// where neither can be opened.
SharedLibrary open_toolkit_library(const char* name, int major);

}  // namespace strobe::cuda
