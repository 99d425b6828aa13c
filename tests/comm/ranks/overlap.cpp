// Handles: what is under way is not done, other work goes on, then it completes; calls happen in their order.
#include <unistd.h>

#include <vector>

#include "comm/ranks/scenario.h"
#include "core/clock.h"

namespace strobe::test {

using comm::elements;

// Rank 1 comes late on purpose: until it does, nobody's sum can be complete.
int overlap(comm::Communicator& communicator) {
  int faults = 0;
  std::vector<float> values(100'000, 1.0f);
  const bool late = communicator.rank() == 1;
  communicator.barrier();
  if (late) usleep(300'000);
  const double started = now_seconds();
  const comm::Pending pending = communicator.start_all_reduce(elements(std::span(values)), elements(std::span(values)));
  if (now_seconds() - started > 0.2) ++faults, std::fprintf(stderr, "starting a call waited for it\n");
  double work = 0;
  if (!late) {
    if (pending.done()) ++faults, std::fprintf(stderr, "a sum is complete before all ranks gave theirs\n");
    for (int i = 0; i < 1000; ++i) work += i;
  }
  pending.wait();
  if (!pending.done() || work < 0) ++faults;
  for (const float value : values) faults += value != static_cast<float>(communicator.size());
  const comm::CallTimes times = pending.times();
  if (!(times.queued <= times.began && times.began <= times.ended))
    ++faults, std::fprintf(stderr, "times out of order\n");
  if (!late && times.ended - times.began < 0.1) ++faults, std::fprintf(stderr, "ended before the late rank came\n");
  return faults;
}

// Many calls under way at once, of different sizes: each finds its own values, and they end in the order of their
// start.
int order_of_many(comm::Communicator& communicator) {
  constexpr int kCalls = 40;
  std::vector<std::vector<float>> values(kCalls);
  std::vector<comm::Pending> pending;
  for (int i = 0; i < kCalls; ++i) {
    values[static_cast<std::size_t>(i)].assign(static_cast<std::size_t>(1 + i * 997 % 5000), static_cast<float>(i));
    const comm::Elements data = elements(std::span(values[static_cast<std::size_t>(i)]));
    pending.push_back(i % 3 == 2 ? communicator.start_broadcast(data) : communicator.start_all_reduce(data, data));
  }
  int faults = 0;
  double before = 0;
  pending.back().wait();
  for (int i = 0; i < kCalls; ++i) {
    const comm::Pending& one = pending[static_cast<std::size_t>(i)];
    if (!one.done()) ++faults, std::fprintf(stderr, "call %d is not done although a later one is\n", i);
    const float wanted = static_cast<float>(i * (i % 3 == 2 ? 1 : communicator.size()));
    for (const float value : values[static_cast<std::size_t>(i)]) faults += value != wanted;
    if (one.times().ended < before) ++faults;
    before = one.times().ended;
  }
  return faults;
}

}  // namespace strobe::test
