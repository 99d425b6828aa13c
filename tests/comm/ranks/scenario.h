// Scenarios of a rank in a test; comm_ranks SCENARIO runs one of them. Each prints the faults that it finds to standard
// error and returns their number.
#pragma once

#include <cstdio>

#include "comm/communicator.h"

namespace strobe::test {

int every_value(comm::Communicator& communicator);
int overlap(comm::Communicator& communicator);
int order_of_many(comm::Communicator& communicator);
int asleep(comm::Communicator& communicator);
int agreement(comm::Communicator& communicator);  // throws at the end, because rank 2 has different facts
int on_the_gpu(comm::Communicator& communicator);

}  // namespace strobe::test
