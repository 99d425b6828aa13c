// Where operations run; the tensors of a call lie there.
#pragma once

#include "strobe/attention.h"

namespace strobe::ops {

struct Place {
  Device device = Device::cpu;
  int threads = 1;         // CPU; results are bitwise the same for any number
  void* stream = nullptr;  // CUDA: a cudaStream_t
};

// What an output is: written over, or added to.
enum class Into { set, sum };

// Refuses what has no implementation on the place's device yet.
void expect_cpu(const Place& place, const char* operation);

}  // namespace strobe::ops
