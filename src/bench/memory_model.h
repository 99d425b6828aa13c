// Predicted memory of an implementation, item by item, for `strobe explain`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/case.h"

namespace strobe::bench {

struct MemoryItem {
  std::string name;  // "Q, K, V", "scores", "output"
  std::int64_t bytes;
};

struct MemoryModel {
  std::string implementation;
  std::vector<MemoryItem> forward;         // held at the peak of a forward
  std::vector<MemoryItem> backward_extra;  // held beyond that at the peak of a backward
  std::string note;

  std::int64_t forward_bytes() const;
  std::int64_t backward_bytes() const;  // the extra alone
};

// One of the library's kernels, with the workspace that it asks for. Throws Error(unsupported) where it refuses.
MemoryModel predict_kernel(const Case& one, const std::string& kernel);

// Attention as one writes it first in a framework that keeps what backward needs: all scores of all heads at once.
MemoryModel predict_plain(const Case& one);

// `torch-naive`: plain attention in PyTorch, from its measured peaks. P are bytes of scores, T of a tensor: 3 P + 6 T
// on a CPU, 4 P + 6 T and cuBLAS's workspaces on a GPU, and 3 T more if a GEMM copies Q, K and V.
MemoryModel predict_torch_naive(const Case& one);

// Bytes that are free now; INT64_MAX where that is not known.
std::int64_t free_bytes(Device device);

}  // namespace strobe::bench
