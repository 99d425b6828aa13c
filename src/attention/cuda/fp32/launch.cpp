// Plan of the fp32 kernels on CUDA cores, for the sm80 plans.
#include "attention/cuda/fp32/launch.h"

#include "attention/cuda/problem.h"

namespace strobe::cuda {

namespace {

struct CudaCores {
  std::string text(const Problem&) const { return "CUDA cores, one warp per row"; }

  void run(const Problem& problem, void* workspace) const {
    if (problem.pass == Pass::forward) return fp32::launch_forward(params_of(problem), problem.stream);
    fp32::DbiasSizes dbias;
    if (problem.wants_dbias) {
      const auto size = [&](std::size_t i) { return static_cast<int>(problem.dbias.shape[i]); };
      dbias = {size(0), size(1), size(2), size(3)};
    }
    fp32::launch_backward(backward_params_of(problem), dbias, workspace, problem.stream);
  }
};

}  // namespace

Plan fp32::plan(const Problem& problem) {
  const bool forward = problem.pass == Pass::forward;
  return Plan(CudaCores{}, forward ? 0 : backward_bytes(static_cast<std::size_t>(rows_of(problem))));
}

}  // namespace strobe::cuda
