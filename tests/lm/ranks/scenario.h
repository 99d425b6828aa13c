// Scenarios of a rank in a test of data parallel training: lm_ranks SCENARIO [cuda|nccl]. Each prints its faults to
// standard error and returns their number.
#pragma once

#include <cstdio>
#include <string>

#include "comm/communicator.h"
#include "ops/execution_context.h"

namespace strobe::test {

// execution: device and threads of the model.
using Scenario = int(comm::Communicator& communicator, const ops::ExecutionContext& execution);

Scenario equals_one_process, shared_optimizer, shared_gradients, first_broadcast, order_of_events, calls_and_bytes,
    averages, loss_scale;
int tied_and_frozen(comm::Communicator& communicator);
int refusals(comm::Communicator& communicator);

// Counts and prints failed checks.
class Faults {
 public:
  explicit Faults(const comm::Communicator& communicator) : rank_(communicator.rank()) {}
  void expect(bool holds, const std::string& what) {
    if (holds) return;
    ++count_;
    std::fprintf(stderr, "rank %d: %s\n", rank_, what.c_str());
  }
  int count() const { return count_; }

 private:
  int rank_;
  int count_ = 0;
};

}  // namespace strobe::test
