// Converts profiles to traces for Perfetto and chrome://tracing. The functions for single events also serve
// parallel_bench.cpp.
#pragma once

#include <span>
#include <string>

#include "core/json.h"
#include "lm/profile/profile.h"

namespace strobe::lm {

// Returns an event that names a process or track; `what` is "process_name" or "thread_name".
Json trace_name(const char* what, int process, int track, const std::string& name);
// Returns a span on a track; times are in seconds.
Json trace_span(int process, int track, std::string name, double begin, double seconds);
Json trace_of(Json events);

struct NamedProfile {
  std::string name;
  Profile profile;
};

// Returns a trace with one process per profile. Its tracks are steps, phases and operations on the host's clock, and
// profiling scopes if there are any. On CUDA, each stream adds a track of kernels and copies.
Json trace_json(std::span<const NamedProfile> profiles);

}  // namespace strobe::lm
