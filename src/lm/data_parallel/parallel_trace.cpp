#include "lm/data_parallel/parallel_trace.h"

#include <algorithm>

namespace strobe::lm {

namespace {

constexpr int kStepTrack = 1, kComputeTrack = 2, kCommunicationTrack = 3;
constexpr double kGap = 0.05;  // between two steps, as a share of the longer one

Json track_name(const char* what, std::size_t rank, int track, const std::string& name) {
  return Json::object(
      {{"ph", "M"}, {"name", what}, {"pid", rank + 1}, {"tid", track}, {"args", Json::object({{"name", name}})}});
}

// Times of a trace are microseconds.
Json event_of(std::size_t rank, int track, const std::string& name, double begin, double seconds) {
  return Json::object(
      {{"ph", "X"}, {"name", name}, {"pid", rank + 1}, {"tid", track}, {"ts", 1e6 * begin}, {"dur", 1e6 * seconds}});
}

double end_of(const std::vector<ParallelSpan>& spans) {
  double end = 0;
  for (const ParallelSpan& span : spans) end = std::max(end, span.begin + span.seconds);
  return end;
}

}  // namespace

Json parallel_trace_json(std::span<const TracedStep> steps) {
  Json events = Json::array();
  for (std::size_t rank = 0; !steps.empty() && rank < steps[0].ranks.size(); ++rank) {
    events.push_back(track_name("process_name", rank, 0, "rank " + std::to_string(rank)));
    events.push_back(track_name("thread_name", rank, kStepTrack, "steps"));
    events.push_back(track_name("thread_name", rank, kComputeTrack, "compute"));
    events.push_back(track_name("thread_name", rank, kCommunicationTrack, "communication"));
  }
  double begin = 0;
  for (const TracedStep& step : steps) {
    double longest = 0;
    for (std::size_t rank = 0; rank < step.ranks.size(); ++rank) {
      const double seconds = end_of(step.ranks[rank]);
      longest = std::max(longest, seconds);
      events.push_back(event_of(rank, kStepTrack, step.name, begin, seconds));
      for (const ParallelSpan& span : step.ranks[rank]) {
        const bool call = span.track == ParallelSpan::Track::communication;
        Json event =
            event_of(rank, call ? kCommunicationTrack : kComputeTrack, span.name, begin + span.begin, span.seconds);
        if (call) event.set("args", Json::object({{"bytes", span.bytes}}));
        events.push_back(std::move(event));
      }
    }
    begin += (1 + kGap) * longest;
  }
  return Json::object({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}});
}

}  // namespace strobe::lm
