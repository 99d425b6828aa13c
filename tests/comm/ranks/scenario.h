// What a rank does in a test: comm_ranks NAME runs one of these on a communicator of its own. Each returns the number
// of faults that it found, having told them on the standard error.
#pragma once

#include <cstdio>

#include "comm/communicator.h"

namespace strobe::test {

int every_value(comm::Communicator& communicator);
int overlap(comm::Communicator& communicator);
int order_of_many(comm::Communicator& communicator);
int asleep(comm::Communicator& communicator);
int agreement(comm::Communicator& communicator);  // then throws: rank 2 was told otherwise
int on_the_gpu(comm::Communicator& communicator);

}  // namespace strobe::test
