// lm_ranks SCENARIO: one rank of a test. Ends with 1 where something is wrong, and as the program does by
// errors: one line on the standard error, code 2 or 3.
#include <stdlib.h>

#include "lm/ranks/scenario.h"
#include "strobe/error.h"

namespace strobe::test {
namespace {

int run(const std::string& scenario) {
  const comm::Variable variable = [](const char* name) -> const char* { return getenv(name); };
  comm::Communicator communicator(comm::this_world(), {.limits = comm::limits_from(variable)});
  if (scenario == "equal") return equals_one_process(communicator);
  if (scenario == "tied") return tied_tensor(communicator);
  if (scenario == "shared-optimizer") return shared_optimizer(communicator);
  if (scenario == "broadcast") return first_broadcast(communicator);
  if (scenario == "events") return order_of_events(communicator);
  if (scenario == "calls") return calls_and_bytes(communicator);
  if (scenario == "averages") return averages(communicator);
  if (scenario == "refusals") return refusals(communicator);
  throw Error(ErrorCode::invalid_argument, "no such scenario: " + scenario);
}

}  // namespace
}  // namespace strobe::test

int main(int count, char** words) {
  if (count < 2) return 2;
  try {
    return strobe::test::run(words[1]) == 0 ? 0 : 1;
  } catch (const strobe::Error& error) {
    std::fprintf(stderr, "strobe: %s\n", error.what());
    return error.code() == strobe::ErrorCode::runtime ? 3 : 2;
  }
}
