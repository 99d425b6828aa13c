// cuDNN's plan for one pass of a problem: cudnn/plan.cpp, or no_cudnn.cpp in a build without cuDNN. Includes no cuDNN
// header.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "bench/cudnn_problem.h"

namespace strobe::bench {

// Tensors on the GPU. Forward reads q, k, v and writes o and, with statistics, lse. Backward also reads these and d_o,
// and writes the others.
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
  // Compiles the first plan of cuDNN's heuristics, which takes up to seconds. Throws Error(unsupported) with cuDNN's
  // message if it rejects the problem.
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

// Versions of the opened library, "9.19.0", and of cudnn-frontend's headers. Known once a plan exists.
std::string cudnn_version();
std::string cudnn_frontend_version();

}  // namespace strobe::bench
