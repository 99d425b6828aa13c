// What a kernel says of a case, for the implementations that run kernels.
#pragma once

#include <string>

#include "bench/case.h"

namespace strobe::bench {

// The kernel's verdict on one pass; throws Error(unsupported) with the reason where it refuses.
Verdict verdict_of(const std::string& kernel, const Case& one, Pass pass);

// Bytes for whichever of the case's passes needs more.
std::size_t workspace_of(const std::string& kernel, const Case& one);

// Bytes of all tensors and workspace that a run of the case holds.
std::int64_t held_bytes(const std::string& kernel, const Case& one);

}  // namespace strobe::bench
