// lm_ranks SCENARIO [cuda|nccl]: one rank of a test. Exits with 1 if a check fails. Reports errors as strobe does: one
// line on standard error, exit code 2 or 3.
#include <stdlib.h>

#include "lm/ranks/scenario.h"
#include "strobe/error.h"

namespace strobe::test {
namespace {

// where: "cpu"; "cuda": model on the GPU, MPI or a single rank; "nccl": model on the GPU, NCCL.
int run(const std::string& scenario, const std::string& where) {
  const comm::Variable variable = [](const char* name) -> const char* { return getenv(name); };
  const comm::EngineKind engine = where == "nccl" ? comm::EngineKind::nccl : comm::EngineKind::automatic;
  comm::Communicator communicator(comm::this_world(), {.engine = engine, .limits = comm::limits_from(variable)});
  const ops::ExecutionContext execution{.device = where == "cpu" ? Device::cpu : Device::cuda, .threads = 1};
  if (scenario == "equal") return equals_one_process(communicator, execution);
  if (scenario == "shared-optimizer") return shared_optimizer(communicator, execution);
  if (scenario == "shared-gradients") return shared_gradients(communicator, execution);
  if (scenario == "broadcast") return first_broadcast(communicator, execution);
  if (scenario == "events") return order_of_events(communicator, execution);
  if (scenario == "calls") return calls_and_bytes(communicator, execution);
  if (scenario == "averages") return averages(communicator, execution);
  if (scenario == "loss-scale") return loss_scale(communicator, execution);
  if (scenario == "tied") return tied_and_frozen(communicator);
  if (scenario == "refusals") return refusals(communicator);
  throw Error(ErrorCode::invalid_argument, "no such scenario: " + scenario);
}

}  // namespace
}  // namespace strobe::test

int main(int count, char** words) {
  if (count < 2) return 2;
  try {
    return strobe::test::run(words[1], count > 2 ? words[2] : "cpu") == 0 ? 0 : 1;
  } catch (const strobe::Error& error) {
    std::fprintf(stderr, "strobe: %s\n", error.what());
    return error.code() == strobe::ErrorCode::runtime ? 3 : 2;
  }
}
