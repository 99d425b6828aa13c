// Execution context of operations: device, threads or stream, and workspace. The tensors of a call are on its device.
// lm/ passes it to every operation.
#pragma once

#include <cstddef>

#include "strobe/attention.h"

namespace strobe::ops {

struct ExecutionContext {
  Device device = Device::cpu;
  int threads = 1;             // CPU threads; results are bitwise identical for any number
  void* stream = nullptr;      // CUDA: a cudaStream_t
  bool deterministic = true;   // results are bitwise repeatable from run to run, as CPU results always are
  bool searches_tiles = true;  // CUDA, unless deterministic: the first matmul of each shape times many tile sizes, and
                               // later ones use the fastest
  bool tf32 = false;           // CUDA, fp32: matmuls may use TF32 (10-bit mantissa)
  void* workspace = nullptr;   // CUDA: at least kWorkspaceBytes, aligned to 256; calls must not use it concurrently
  std::size_t workspace_bytes = 0;
};

// Workspace that NVIDIA recommends for cuBLASLt on Hopper. Other operations need less.
inline constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

// set: the result overwrites the output. sum: the result is added to the output.
enum class Into { set, sum };

}  // namespace strobe::ops
