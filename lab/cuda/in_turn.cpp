// Implements run_in_turn(): copies and kernels run one after the other. All GPU rungs before the stream rungs use it.
#include "core/clock.h"
#include "lab/cuda/memory.h"

namespace strobe::lab {

Split run_in_turn(const RungProblem& problem, float* o, RowPitch layout,
                  const std::function<Launches(const Tensors&)>& launch) {
  const double start = now_seconds();
  const Memory memory(problem, layout);
  STROBE_CUDA_CHECK(cudaDeviceSynchronize());
  const double allocated = now_seconds();
  memory.send_q(problem.q, 0, problem.batch, nullptr);
  memory.send_k(problem.k, 0, problem.batch, nullptr);
  memory.send_v(problem.v, 0, problem.batch, nullptr);
  STROBE_CUDA_CHECK(cudaDeviceSynchronize());
  const double sent = now_seconds();
  const Launches launches = launch(memory.tensors(0, problem.batch));
  STROBE_CUDA_CHECK(cudaGetLastError());
  STROBE_CUDA_CHECK(cudaDeviceSynchronize());
  const double computed = now_seconds();
  memory.receive(o, 0, problem.batch, nullptr);
  STROBE_CUDA_CHECK(cudaDeviceSynchronize());
  const double received = now_seconds();
  return {.total = received - allocated,
          .allocate = allocated - start,
          .to_device = sent - allocated,
          .kernel = computed - sent,
          .to_host = received - computed,
          .launches = launches};
}

}  // namespace strobe::lab
