// Handles: what is under way is not done, other work goes on, then it completes; calls happen in their order.
#include <unistd.h>

#include <fstream>
#include <vector>

#include "comm/ranks/scenario.h"
#include "core/clock.h"

namespace strobe::test {

using comm::elements;

// Rank 1 comes when rank 0 has made a file, having started its own call and worked beside it: until then nobody's sum
// can be complete, and a start that waits for its call comes to nothing.
int overlap(comm::Communicator& communicator) {
  int faults = 0;
  std::vector<float> values(100'000, 1.0f);
  const char* file = "rank-0-has-started";
  const bool late = communicator.rank() == 1;
  communicator.barrier();
  while (late && access(file, F_OK) != 0) usleep(1'000);
  const comm::Pending pending = communicator.start_all_reduce(elements(std::span(values)), elements(std::span(values)));
  double work = 0, go = 0;
  if (!late) {
    for (int i = 0; i < 1000; ++i) work += i;
    if (pending.done()) ++faults, std::fprintf(stderr, "a sum is complete before all ranks gave theirs\n");
    go = now_seconds();
    std::ofstream made(file);
  }
  while (!pending.done()) usleep(1'000);  // by itself, with nobody waiting for it
  pending.wait();
  if (work < 0) ++faults;
  for (const float value : values) faults += value != static_cast<float>(communicator.size());
  const comm::CallTimes times = pending.times();
  if (!(times.queued <= times.began && times.began <= times.ended))
    ++faults, std::fprintf(stderr, "times out of order\n");
  if (times.ended < go) ++faults, std::fprintf(stderr, "ended before the late rank came\n");
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
