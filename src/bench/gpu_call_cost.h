// What a call of the library costs the CPU on its way to a GPU: validation, choice, descriptors, launch.
#pragma once

namespace strobe::bench {

// Seconds a call, of ten in a row that nothing waits for, a thousand times: by the fastest ten, which no neighbour on
// the machine has slowed down, and by the median.
struct CallTime {
  double least, median;
};

struct CallCost {
  double first;         // seconds of a process's first forward call on a warm GPU: the kernel's module is loaded then
  double first_loaded;  // of the first call of another kernel of that module
  CallTime forward, backward;
  CallTime large_backward;
};

// Causal problems, workspace given: 2 heads of 256 rows, and 512 of 512; in bf16, the first call of all in fp16. Throws
// Error where there is no GPU.
CallCost gpu_call_cost();

}  // namespace strobe::bench
