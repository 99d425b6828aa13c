// Profiles as a trace that Perfetto and chrome://tracing open.
#pragma once

#include <span>
#include <string>

#include "core/json.h"
#include "lm/profile/profile.h"

namespace strobe::lm {

struct NamedProfile {
  std::string name;
  Profile profile;
};

// A process for each profile, with a track of steps, one of phases and one of operations, as the host has them, one of
// their parts where there are some, and on CUDA one of kernels and copies for each stream.
Json trace_json(std::span<const NamedProfile> profiles);

}  // namespace strobe::lm
