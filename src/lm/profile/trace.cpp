// Builds the events of a trace in the Chrome trace event format.
#include "lm/profile/trace.h"

#include <algorithm>
#include <set>

namespace strobe::lm {

namespace {

enum Track : int { kSteps = 1, kPhaseTrack, kOperations, kScopes, kFirstStream };  // one per GPU stream from here on

// Adds one span for each sequence of operations of one phase.
void add_phases(Json& events, int process, const Profile& profile) {
  const auto& all = profile.operations;
  for (std::size_t first = 0; first < all.size();) {
    std::size_t last = first;
    while (last + 1 < all.size() && all[last + 1].phase == all[first].phase) ++last;
    const double end = all[last].begin + all[last].host_seconds;
    events.push_back(
        trace_span(process, kPhaseTrack, name_of(all[first].phase), all[first].begin, end - all[first].begin));
    first = last + 1;
  }
}

void add_operations(Json& events, int process, const Profile& profile) {
  for (const TimedOperation& one : profile.operations) {
    Json event = trace_span(process, kOperations, one.name, one.begin, one.host_seconds);
    event.set("cat", name_of(one.kind));
    event.set("args", Json::object({{"of", one.of}, {"FLOP", one.flops}, {"bytes", one.bytes}}));
    events.push_back(std::move(event));
  }
}

void add_scopes(Json& events, int process, const Profile& profile) {
  if (profile.scopes.empty()) return;
  events.push_back(trace_name("thread_name", process, kScopes, "parts"));
  for (const TimedScope& scope : profile.scopes) {
    const TimedOperation& one = profile.operations[scope.operation];
    Json event = trace_span(process, kScopes, scope.name, scope.begin, scope.seconds);
    event.set("cat", name_of(one.kind));
    event.set(
        "args",
        Json::object({{"operation", one.name}, {"of", one.of}, {"phase", name_of(one.phase)}, {"FLOP", scope.flops}}));
    events.push_back(std::move(event));
  }
}

void add_streams(Json& events, int process, const Profile& profile) {
  std::set<int> streams;
  for (const GpuRecord& record : profile.records) streams.insert(record.stream);
  const auto track_of = [&](int stream) {
    return kFirstStream + static_cast<int>(std::distance(streams.begin(), streams.find(stream)));
  };
  for (const int stream : streams) {
    events.push_back(trace_name("thread_name", process, track_of(stream), "GPU stream " + std::to_string(stream)));
  }
  for (const GpuRecord& record : profile.records) {
    Json event =
        trace_span(process, track_of(record.stream), short_kernel_name(record.name), record.begin, record.seconds);
    Json arguments = Json::object({{"name", record.name}});
    if (record.launcher > 0) {
      const TimedOperation& one = profile.operations[record.launcher - 1];
      event.set("cat", name_of(one.kind));
      arguments.set("operation", one.name).set("of", one.of).set("phase", name_of(one.phase));
    }
    if (record.kind != GpuRecord::Kind::kernel) arguments.set("bytes", record.bytes);
    event.set("args", std::move(arguments));
    events.push_back(std::move(event));
  }
}

}  // namespace

Json trace_name(const char* what, int process, int track, const std::string& name) {
  return Json::object(
      {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", track}, {"args", Json::object({{"name", name}})}});
}

Json trace_span(int process, int track, std::string name, double begin, double seconds) {
  return Json::object({{"ph", "X"},
                       {"name", std::move(name)},
                       {"pid", process},
                       {"tid", track},
                       {"ts", 1e6 * begin},  // microseconds
                       {"dur", 1e6 * seconds}});
}

Json trace_of(Json events) { return Json::object({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}); }

Json trace_json(std::span<const NamedProfile> profiles) {
  Json events = Json::array();
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    const int process = static_cast<int>(i) + 1;
    const Profile& profile = profiles[i].profile;
    events.push_back(trace_name("process_name", process, 0, profiles[i].name));
    const std::string host = profile.device == Device::cuda ? " (host, launching)" : "";
    events.push_back(trace_name("thread_name", process, kSteps, "steps"));
    events.push_back(trace_name("thread_name", process, kPhaseTrack, "phases" + host));
    events.push_back(trace_name("thread_name", process, kOperations, "operations" + host));
    for (std::size_t step = 0; step < profile.steps.size(); ++step) {
      events.push_back(trace_span(process, kSteps, "step " + std::to_string(step + 1), profile.steps[step].begin,
                                  profile.steps[step].seconds));
    }
    add_phases(events, process, profile);
    add_operations(events, process, profile);
    add_scopes(events, process, profile);
    add_streams(events, process, profile);
  }
  return trace_of(std::move(events));
}

}  // namespace strobe::lm
