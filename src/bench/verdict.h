// A kernel's verdict on a case, for the implementations that run kernels.
#pragma once

#include <string>

#include "bench/case.h"

namespace strobe::bench {

// The kernel's verdict on one pass. Throws Error(unsupported) with the reason if the kernel does not support it.
Verdict verdict_of(const std::string& kernel, const Case& one, Pass pass);

// Workspace bytes of the case's pass that needs more.
std::size_t workspace_of(const std::string& kernel, const Case& one);

// Bytes of all tensors and workspace of a run of the case.
std::int64_t held_bytes(const std::string& kernel, const Case& one);

}  // namespace strobe::bench
