// What a rank does in a test of data parallel training, lm_ranks NAME. Each returns the number of faults
// that it found, having told them on the standard error.
#pragma once

#include <cstdio>
#include <string>

#include "comm/communicator.h"

namespace strobe::test {

int equals_one_process(comm::Communicator& communicator);
int shared_optimizer(comm::Communicator& communicator);
int first_broadcast(comm::Communicator& communicator);
int order_of_events(comm::Communicator& communicator);
int calls_and_bytes(comm::Communicator& communicator);
int tied_tensor(comm::Communicator& communicator);
int averages(comm::Communicator& communicator);
int refusals(comm::Communicator& communicator);

// Counts what is not so, and tells it.
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
