// Implements solve_file(): opens both files, runs the solver of the device, and commits the answer. Also describes
// chunks of a problem as library arguments.
#include "solve/solve.h"

#include <algorithm>

#include "core/clock.h"
#include "core/fail.h"
#include "device/gpu_facts.h"
#include "solve/case_files.h"
#include "solve/solver.h"

namespace strobe::solve {
namespace {

Device choose_device(const SolveOptions& options) {
  if (options.device == Device::cpu) return Device::cpu;
  const CurrentGpu gpu = current_gpu();
  if (gpu.reason.empty()) return Device::cuda;
  if (options.device) fail(ErrorCode::unsupported, "--device cuda: {}; valid: cpu", gpu.reason);
  return Device::cpu;
}

std::string chosen_kernel(const Solver& solver, Device device) {
  const Attention attention = attention_of(solver.problem.size(), 1, nullptr);
  for (const Verdict& verdict : explain(attention, Pass::forward, {.device = device, .kernel = solver.kernel})) {
    if (verdict.chosen) return verdict.kernel;
  }
  return solver.kernel;
}

}  // namespace

Solved solve_file(const std::string& input, const std::string& output, const SolveOptions& options) {
  const ProblemFile problem(input);
  check_output_place(input, output);
  AnswerFile answer(output, problem.size());
  Solved solved{.size = problem.size(), .kernel = {}, .times = {}};
  const double begin = now_seconds();
  solved.device = choose_device(options);
  const double choosing = now_seconds() - begin;
  const Solver solver{problem, answer, options.kernel};
  solved.kernel = chosen_kernel(solver, solved.device);
  solved.times = solved.device == Device::cuda ? solve_on_cuda(solver) : solve_on_cpu(solver);
  if (solved.device == Device::cuda) solved.times.context += choosing;  // choose_device() made the first driver call
  const double written = now_seconds();
  answer.commit();
  solved.sync = now_seconds() - written;
  return solved;
}

// --- a chunk of a problem file as library arguments: one head per batch, batches 3 N d floats apart ------------------

Attention attention_of(const ProblemSize& size, std::int64_t batches, const float* inputs) {
  const std::int64_t elements = size.elements();
  const auto view = [&](std::int64_t which) {
    return ConstView{inputs ? inputs + which * elements : nullptr,
                     DType::fp32,
                     {batches, 1, size.rows, size.dim},
                     {3 * elements, elements, size.dim, 1}};
  };
  return {.q = view(0), .k = view(1), .v = view(2)};
}

ForwardOutputs outputs_of(const ProblemSize& size, std::int64_t batches, float* outputs) {
  return {.o = view_bhsd<void>(outputs, DType::fp32, {batches, 1, size.rows, size.dim})};
}

std::size_t chunk_workspace(const ProblemSize& size, std::int64_t batches, const Execution& execution) {
  std::size_t bytes = 0;
  for (const std::int64_t count : {batches, size.batch % batches}) {
    if (count > 0)
      bytes = std::max(bytes, workspace_bytes(attention_of(size, count, nullptr), Pass::forward, execution));
  }
  return bytes;
}

}  // namespace strobe::solve
