// Interface between _core and libstrobe_torch for calls that bypass PyTorch's dispatcher.
#pragma once

#include <cstdint>

namespace strobe_python {

// A call with q [B, Hq, Sq, D], k and v, without other tensors. The callee releases the input handles; the caller owns
// the results. Handles are AtenTensorHandle.
struct DirectCall {
  void *q = nullptr, *k = nullptr, *v = nullptr;
  void *d_o = nullptr, *o = nullptr, *lse = nullptr;  // null in the forward
  double scale, softcap;
  std::int64_t causal, align, window_left, window_right;
  const char* kernel;
  bool deterministic, batch_invariant, wants_lse = false;
  void* results[3] = {};  // o and lse, or dq, dk and dv; all null if the operators' checks must handle the call
};

// Returns the status as in strobe.h. On failure, sets `message`, which stays valid until the thread's next call.
using DirectKernel = int (*)(DirectCall* call, const char** message);

}  // namespace strobe_python
