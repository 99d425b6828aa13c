// What a call of the library costs the CPU on its way to a GPU: validation, choice, descriptors, launch.
#pragma once

namespace strobe::bench {

struct CallCost {
  double first;              // seconds of a process's first forward call on a warm GPU: kernels are loaded then
  double forward, backward;  // seconds a call, of many in a row that nothing waits for
  double large_backward;     // likewise where dQ takes a kernel of its own
};

// Causal bf16 problems, workspace given: 2 heads of 256 rows, and 512 of 512. Throws Error where there is no GPU.
CallCost gpu_call_cost();

}  // namespace strobe::bench
