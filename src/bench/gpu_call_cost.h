// What a call of the library costs the CPU on its way to a GPU: validation, choice, descriptors, launch.
#pragma once

namespace strobe::bench {

struct CallCost {
  double first;              // seconds of a process's first forward call on a warm GPU: kernels are loaded then
  double forward, backward;  // seconds a call, of many in a row that nothing waits for
};

// A small causal bf16 problem, workspace given. Throws Error where there is no GPU.
CallCost gpu_call_cost();

}  // namespace strobe::bench
