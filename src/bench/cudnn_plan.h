// Interface to cuDNN plans, without cuDNN headers. Implemented in cudnn/plan.cpp, or in no_cudnn.cpp for a build
// without cuDNN. CudnnPeer uses it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "bench/case.h"

namespace strobe::bench {

// The structs below describe a case in cuDNN's terms. cudnn_problem() creates and validates them without cuDNN.

struct CudnnTensor {
  std::array<std::int64_t, 4> shape{};   // [batch, heads, sequence, dim]
  std::array<std::int64_t, 4> stride{};  // in elements
  bool operator==(const CudnnTensor&) const = default;
};

enum class CudnnMask { none, causal_top_left, causal_bottom_right };

struct CudnnProblem {
  DType dtype = DType::fp16;
  CudnnTensor q, k, v, o;  // a gradient has the layout of its tensor
  CudnnTensor lse;         // [batch, heads, queries, 1], fp32
  float scale = 1;
  CudnnMask mask = CudnnMask::none;
  bool statistics = false;  // forward writes LSE, because a backward pass follows
  bool operator==(const CudnnProblem&) const = default;
};

// Throws Error(unsupported) for options that this peer lacks. Plan creation reports what cuDNN itself rejects.
CudnnProblem cudnn_problem(const AttentionCase& one);

// Tensors on the GPU. Forward reads q, k, v and writes o and, with statistics, lse. Backward reads q, k, v, o, lse and
// d_o, and writes dq, dk and dv.
struct CudnnPointers {
  void* q = nullptr;
  void* k = nullptr;
  void* v = nullptr;
  void* o = nullptr;
  void* lse = nullptr;
  void* d_o = nullptr;
  void* dq = nullptr;
  void* dk = nullptr;
  void* dv = nullptr;
};

class CudnnPlan {
 public:
  // Builds the first plan that cuDNN's heuristics propose, which can take seconds. Throws Error(unsupported) with
  // cuDNN's message if cuDNN rejects the problem.
  CudnnPlan(const CudnnProblem& problem, Pass pass);
  CudnnPlan(CudnnPlan&&) noexcept;
  ~CudnnPlan();

  std::size_t workspace_bytes() const;
  std::string engine() const;  // cuDNN's engine name with its knobs

  // Enqueues the pass on `stream`, a cudaStream_t.
  void run(const CudnnPointers& pointers, void* workspace, void* stream) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Return the versions of the loaded library ("9.19.0") and of the cudnn-frontend headers.
std::string cudnn_version();
std::string cudnn_frontend_version();

}  // namespace strobe::bench
