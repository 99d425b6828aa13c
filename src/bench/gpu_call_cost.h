// Host cost of a library call that launches on a GPU: validation, kernel choice, tensor maps, launch.
#pragma once

namespace strobe::bench {

// Seconds per call, over a thousand batches of ten calls without synchronisation: of the fastest batch, which other
// processes did not disturb, and of the median.
struct CallTime {
  double least, median;
};

struct CallCost {
  double first;         // seconds of a process's first forward call on a warm GPU, which loads the kernel's module
  double first_loaded;  // seconds of the first call of another kernel of that module
  CallTime forward, backward;
  CallTime large_backward;
};

// Causal problems with workspace: 2 heads of 256 rows, and 512 of 512, in bf16; the first call of all in fp16. Throws
// Error without a GPU.
CallCost gpu_call_cost();

}  // namespace strobe::bench
