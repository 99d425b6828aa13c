// One pass of a problem, planned by cuDNN: cudnn/plan.cpp, or no_cudnn.cpp in a build without it. No header of cuDNN
// crosses here.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "bench/cudnn_problem.h"

namespace strobe::bench {

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
