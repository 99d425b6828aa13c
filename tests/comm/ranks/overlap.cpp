// Scenarios of pending collectives. The caller works while a call is pending. Calls complete in the order of their
// start. Ranks that wait for rank 0 sleep instead of polling.
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <vector>

#include "comm/agreement.h"
#include "comm/ranks/scenario.h"
#include "core/clock.h"

namespace strobe::test {

using comm::elements;

// Rank 0 starts a call, works while it is pending, then creates a file. Rank 1 joins the call once the file exists. The
// call cannot complete earlier, and a start() that blocks would never return.
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
    if (pending.done()) ++faults, std::fprintf(stderr, "a sum is complete before all ranks joined the call\n");
    go = now_seconds();
    std::ofstream made(file);
  }
  while (!pending.done()) usleep(1'000);  // completes without a wait()
  pending.wait();
  if (work < 0) ++faults;
  for (const float value : values) faults += value != static_cast<float>(communicator.size());
  const comm::CallTimes times = pending.times();
  if (!(times.queued <= times.began && times.began <= times.ended))
    ++faults, std::fprintf(stderr, "times out of order\n");
  if (times.ended < go) ++faults, std::fprintf(stderr, "ended before the late rank joined\n");
  return faults;
}

// Rank 0 works for half a second while the others wait for it. A polling rank would have thousands of context switches.
int asleep(comm::Communicator& communicator) {
  constexpr int kRounds = 5;
  constexpr long kMostSwitches = 100;
  const auto switches = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
  };
  communicator.barrier();
  const long before = switches();
  int rounds = 0;
  comm::while_others_sleep(communicator, [&] {
    usleep(100'000);
    return ++rounds == kRounds;
  });
  const long during = switches() - before;
  std::int64_t taken = rounds;  // rank 0 has finished its work
  communicator.broadcast(comm::elements(std::span(&taken, 1)));
  int faults = 0;
  if (taken != kRounds) ++faults, std::fprintf(stderr, "rank 0 has worked %d times\n", static_cast<int>(taken));
  if (communicator.rank() != 0 && rounds != 0) ++faults, std::fprintf(stderr, "another rank has worked\n");
  if (communicator.rank() != 0 && during > kMostSwitches)
    ++faults, std::fprintf(stderr, "rank %d: %ld switches while asleep\n", communicator.rank(), during);
  return faults;
}

// Starts many calls of different sizes. Each must get the correct values, and they must complete in the order of their
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
