// Implements solve_on_cpu(). Kernels read the mapped input file and write to one of three buffers. The load stage
// faults the input's pages in before the kernel reads them; the store stage writes the output file.
#include <algorithm>
#include <vector>

#include "core/clock.h"
#include "core/divide.h"
#include "device/host/allocator.h"
#include "solve/pipeline.h"
#include "solve/solver.h"

namespace strobe::solve {
namespace {

constexpr std::int64_t kInFlight = 3;
constexpr std::int64_t kChunkBytes = 8 << 20;  // output bytes per chunk: enough work for every core

}  // namespace

StageTimes solve_on_cpu(const Solver& solver) {
  const ProblemFile& problem = solver.problem;
  const ProblemSize& size = problem.size();
  const std::int64_t bytes = size.elements() * 4;
  const std::int64_t batches = std::clamp<std::int64_t>(kChunkBytes / bytes, 1, size.batch);
  const std::int64_t chunks = ceil_div(size.batch, batches);

  Execution execution{.device = Device::cpu, .kernel = solver.kernel};
  const Buffer workspace(chunk_workspace(size, batches, execution));
  execution.workspace = workspace.data();
  execution.workspace_bytes = workspace.bytes();
  std::vector<Buffer> outputs;
  for (std::int64_t i = 0; i < std::min(kInFlight, chunks); ++i) {
    outputs.emplace_back(static_cast<std::size_t>(batches * bytes));
  }

  StageTimes times;
  const auto timed = [](double& sum, auto&& stage) {
    const double begin = now_seconds();
    stage();
    sum += now_seconds() - begin;
  };
  const auto begin_of = [&](std::int64_t chunk) { return chunk * batches; };
  const auto end_of = [&](std::int64_t chunk) { return std::min(size.batch, (chunk + 1) * batches); };
  const auto output_of = [&](std::int64_t chunk) {
    return outputs[static_cast<std::size_t>(chunk % kInFlight)].as<float>();
  };
  const double begin = now_seconds();
  run_pipeline(chunks, kInFlight,
               {.load = [&](std::int64_t c) { timed(times.read, [&] { problem.load(begin_of(c), end_of(c)); }); },
                .compute =
                    [&](std::int64_t c) {
                      const std::int64_t count = end_of(c) - begin_of(c);
                      timed(times.kernel, [&] {
                        forward(attention_of(size, count, problem.q(begin_of(c))),
                                outputs_of(size, count, output_of(c)), execution);
                      });
                      problem.unload(begin_of(c), end_of(c));
                    },
                .store =
                    [&](std::int64_t c) {
                      const std::int64_t count = (end_of(c) - begin_of(c)) * size.elements();
                      timed(times.write, [&] { solver.answer.write(output_of(c), count); });
                    }});
  times.busy = times.kernel;
  times.total = now_seconds() - begin;
  return times;
}

}  // namespace strobe::solve
