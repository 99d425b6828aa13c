// One pass of a problem, planned by cuDNN: cudnn/plan.cpp, or no_cudnn.cpp in a build without it. No header of cuDNN
// crosses here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "bench/case.h"

namespace strobe::bench {

// What cuDNN is told of a case, as plain data: made, and refused where the peer does not serve it, without cuDNN.

struct CudnnTensor {
  std::array<std::int64_t, 4> shape{};   // [batch, heads, sequence, dim]
  std::array<std::int64_t, 4> stride{};  // in elements
  bool operator==(const CudnnTensor&) const = default;
};

enum class CudnnMask { none, causal_top_left, causal_bottom_right };

struct CudnnProblem {
  DType dtype = DType::fp16;
  CudnnTensor q, k, v, o;  // gradients are like what they are the gradient of
  CudnnTensor lse;         // [batch, heads, queries, 1], fp32
  float scale = 1;
  CudnnMask mask = CudnnMask::none;
  bool statistics = false;  // the forward writes LSE: where a backward comes after it, which needs it
  bool operator==(const CudnnProblem&) const = default;
};

// Throws Error(unsupported) with what the peer is not asked for. What cuDNN itself refuses comes out as a plan is made.
CudnnProblem cudnn_problem(const Case& one);

// Tensors on the GPU. A forward reads q, k and v and writes o and, with statistics, lse; a backward reads all these and
// d_o and writes the others.
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
  // Takes the first plan of cuDNN's heuristics and compiles it: up to seconds. Throws Error(unsupported), with cuDNN's
  // own words where it refuses.
  CudnnPlan(const CudnnProblem& problem, Pass pass);
  CudnnPlan(CudnnPlan&&) noexcept;
  ~CudnnPlan();

  std::size_t workspace_bytes() const;
  std::string engine() const;  // as cuDNN names it, with its knobs

  // Puts the work on the stream, a cudaStream_t, and returns.
  void run(const CudnnPointers& pointers, void* workspace, void* stream) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Of the library that was opened, "9.19.0", and of the headers of cudnn-frontend, likewise. Known once there is a plan.
std::string cudnn_version();
std::string cudnn_frontend_version();

}  // namespace strobe::bench
