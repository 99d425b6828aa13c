// Execution context of operations; the tensors of a call are on its device.
#pragma once

#include <cstddef>

#include "strobe/attention.h"

namespace strobe::ops {

struct Place {
  Device device = Device::cpu;
  int threads = 1;             // CPU; results are bitwise identical for any number
  void* stream = nullptr;      // CUDA: a cudaStream_t
  bool deterministic = true;   // results are bitwise repeatable from run to run; always true on the CPU
  bool searches_tiles = true;  // CUDA, not deterministic: the first call of a matmul times many tiles and keeps the
                               // fastest
  bool tf32 = false;           // CUDA, fp32: matmuls may use TF32 (10-bit mantissa)
  void* workspace = nullptr;   // CUDA: at least kWorkspaceBytes, aligned to 256; one call at a time uses it
  std::size_t workspace_bytes = 0;
};

// Workspace that NVIDIA recommends for cuBLASLt on Hopper. Sums need less.
inline constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

// Selects whether an output is overwritten or added to.
enum class Into { set, sum };

}  // namespace strobe::ops
