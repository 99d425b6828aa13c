// comm_ranks SCENARIO [CHUNK]: one rank of a test. CHUNK is the number of values per chunk. Exits with 1 if values are
// wrong. Reports errors as strobe does: one line on standard error, exit code 2 or 3.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "comm/ranks/scenario.h"
#include "strobe/error.h"

namespace strobe::test {
namespace {

using comm::Communicator;

void add_for(Communicator& communicator, int times) {
  std::vector<float> values(1000, 1.0f);
  for (int i = 0; i < times; ++i) communicator.all_reduce(comm::elements(std::span(values)));
}

// After two calls, rank 1 fails as the scenario's name says; the other ranks continue.
int fault(Communicator& communicator, const std::string& scenario) {
  add_for(communicator, 2);
  if (communicator.rank() == 1) {
    if (scenario == "kill") kill(getpid(), SIGKILL);
    if (scenario == "stop") kill(getpid(), SIGSTOP);
    if (scenario == "throw") throw Error(ErrorCode::runtime, "the file is torn");
    if (scenario == "abort") communicator.abort("asked to");
    if (scenario == "leave") return 0;
    while (scenario == "hang") pause();
    if (scenario == "exit") _exit(7);
  }
  add_for(communicator, 1000);
  return 0;
}

int run(const std::string& scenario, std::int64_t chunk) {
  const comm::World world = comm::this_world();
  const comm::Variable variable = [](const char* name) -> const char* { return getenv(name); };
  comm::CommunicatorOptions options{.limits = comm::limits_from(variable), .facts = {"build", "model"}, .chunk = chunk};
  if (scenario == "differ" && world.rank == 1) options.facts.fingerprint = "another model";
  if (scenario == "other-build" && world.rank == 1) options.facts.build = "older";
  if (scenario == "nccl") options.engine = comm::EngineKind::nccl;
  if (scenario == "not-there" && world.rank == 1) sleep(60);
  Communicator communicator(world, options);
  if (scenario == "values") return every_value(communicator);
  if (scenario == "overlap") return overlap(communicator);
  if (scenario == "many") return order_of_many(communicator);
  if (scenario == "asleep") return asleep(communicator);
  if (scenario == "agreement") return agreement(communicator);
  if (scenario == "gpu" || scenario == "nccl") return on_the_gpu(communicator);
  if (scenario == "restart") {  // rank 1 fails in the first two starts of the job
    add_for(communicator, 2);
    const char* restarts = getenv("STROBE_RESTARTS");
    if (communicator.rank() == 1 && (!restarts || atoi(restarts) < 2)) _exit(9);
    add_for(communicator, 2);
    return 0;
  }
  return fault(communicator, scenario);
}

}  // namespace
}  // namespace strobe::test

int main(int count, char** words) {
  if (count < 2) return 2;
  try {
    const std::int64_t chunk = count > 2 ? std::atoll(words[2]) : strobe::comm::kChunk;
    return strobe::test::run(words[1], chunk) == 0 ? 0 : 1;
  } catch (const strobe::Error& error) {
    const std::string line = std::string("strobe: ") + error.what() + "\n";
    static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
    return error.code() == strobe::ErrorCode::runtime ? 3 : 2;
  }
}
