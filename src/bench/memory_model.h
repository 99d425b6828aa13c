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
  std::vector<MemoryItem> forward;         // tensors at the peak of forward
  std::vector<MemoryItem> backward_extra;  // additional bytes at the peak of backward
  std::string note;

  std::int64_t forward_bytes() const;
  std::int64_t backward_bytes() const;  // sum of backward_extra
};

// Predicts a kernel of the library. Throws Error(unsupported) if it does not support the case.
MemoryModel predict_kernel(const AttentionCase& one, const std::string& kernel);

// Predicts plain attention in a framework with autograd, which materialises the scores of all heads.
MemoryModel predict_plain(const AttentionCase& one);

// Predicts `torch-naive`, plain attention in PyTorch. The formulas fit its measured peaks, with P bytes of scores and T
// bytes per tensor: 3 P + 6 T on a CPU, 4 P + 6 T plus cuBLAS's workspaces on a GPU, and 3 T more if a GEMM copies Q, K
// and V.
MemoryModel predict_torch_naive(const AttentionCase& one);

// Free bytes of a device; INT64_MAX if unknown.
std::int64_t free_bytes(Device device);

}  // namespace strobe::bench
