#include "lm/profile_trace.h"

#include <algorithm>

namespace strobe::lm {

namespace {

enum Track : int { kSteps = 1, kPhaseTrack, kOperations };

Json naming(const char* what, int process, int track, const std::string& name) {
  return Json::object(
      {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", track}, {"args", Json::object({{"name", name}})}});
}

// Times of a trace are microseconds.
Json span_of(int process, Track track, std::string name, double begin, double seconds) {
  return Json::object({{"ph", "X"},
                       {"name", std::move(name)},
                       {"pid", process},
                       {"tid", static_cast<int>(track)},
                       {"ts", 1e6 * begin},
                       {"dur", 1e6 * seconds}});
}

// Neighbours of one phase are one span.
void add_phases(Json& events, int process, const Profile& profile) {
  const auto& all = profile.operations;
  for (std::size_t first = 0; first < all.size();) {
    std::size_t last = first;
    while (last + 1 < all.size() && all[last + 1].phase == all[first].phase) ++last;
    const double end = all[last].begin + all[last].seconds;
    events.push_back(
        span_of(process, kPhaseTrack, name_of(all[first].phase), all[first].begin, end - all[first].begin));
    first = last + 1;
  }
}

}  // namespace

Json trace_json(std::span<const NamedProfile> profiles) {
  Json events = Json::array();
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    const int process = static_cast<int>(i) + 1;
    const Profile& profile = profiles[i].profile;
    events.push_back(naming("process_name", process, 0, profiles[i].name));
    events.push_back(naming("thread_name", process, kSteps, "steps"));
    events.push_back(naming("thread_name", process, kPhaseTrack, "phases"));
    events.push_back(naming("thread_name", process, kOperations, "operations"));
    for (std::size_t step = 0; step < profile.steps.size(); ++step) {
      events.push_back(span_of(process, kSteps, "step " + std::to_string(step + 1), profile.steps[step].begin,
                               profile.steps[step].seconds));
    }
    add_phases(events, process, profile);
    for (const TimedOperation& one : profile.operations) {
      Json event = span_of(process, kOperations, one.name, one.begin, one.seconds);
      event.set("cat", name_of(one.kind));
      event.set("args", Json::object({{"of", one.of}, {"FLOP", one.flops}, {"bytes", one.bytes}}));
      events.push_back(std::move(event));
    }
  }
  return Json::object({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}});
}

}  // namespace strobe::lm
