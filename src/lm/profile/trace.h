// Profiles as a trace that Perfetto and chrome://tracing open, and the events that traces are made of.
#pragma once

#include <span>
#include <string>

#include "core/json.h"
#include "lm/profile/profile.h"

namespace strobe::lm {

// Names a process or a track ("process_name", "thread_name").
Json trace_name(const char* what, int process, int track, const std::string& name);
// A span on a track; seconds.
Json trace_span(int process, int track, std::string name, double begin, double seconds);
Json trace_of(Json events);

struct NamedProfile {
  std::string name;
  Profile profile;
};

// One process per profile, with tracks of steps, phases and operations by the host's clock, of their parts if there are
// some, and on CUDA one of kernels and copies per stream.
Json trace_json(std::span<const NamedProfile> profiles);

}  // namespace strobe::lm
