// Where operations run; the tensors of a call lie there.
#pragma once

#include <cstddef>

#include "strobe/attention.h"

namespace strobe::ops {

struct Place {
  Device device = Device::cpu;
  int threads = 1;             // CPU; results are bitwise the same for any number
  void* stream = nullptr;      // CUDA: a cudaStream_t
  bool deterministic = true;   // results bitwise repeatable from run to run; always so on the CPU
  bool searches_tiles = true;  // CUDA, not deterministic: a product's first call times many tiles and keeps the fastest
  bool tf32 = false;           // CUDA, fp32: products may round elements to the 11 bits of tf32
  void* workspace = nullptr;   // CUDA: kWorkspaceBytes at least, aligned to 256; one call at a time uses it
  std::size_t workspace_bytes = 0;
};

// What cuBLASLt is recommended on a Hopper card; sums need less.
inline constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

// What an output is: written over, or added to.
enum class Into { set, sum };

}  // namespace strobe::ops
