// Lists the rungs in the order of the ladder, and decides whether a rung can run a problem.
#include <fmt/format.h>

#include <vector>

#include "core/fail.h"
#include "core/printable.h"
#include "device/device_info.h"
#include "lab/cpu/runs.h"

namespace strobe::lab {
namespace {

Rung on_cpu(std::string_view name, Run run, std::string_view idea) {
  return {name, idea, Processor::cpu, Sizes::any, run};
}

Rung on_gpu(std::string_view name, std::string_view idea, Sizes sizes = Sizes::tiles) {
  return {name, idea, Processor::gpu, sizes, gpu_run(name)};
}

}  // namespace

std::span<const Rung> rungs() {
  static const std::vector<Rung> kRungs = {
      on_cpu("sequential", run_sequential, "one thread, 32 x 32 tiles, keys in the outer loop"),
      on_cpu("cpu-library", run_cpu_library, "all cores and vectors: the library on the CPU"),
      on_gpu("five-kernels", "the five steps as kernels of one thread each"),
      on_gpu("shared", "one fused kernel, tiles in shared memory; one launch per batch and tile of keys"),
      on_gpu("padded", "33 floats per row of a tile: no bank conflicts"),
      on_gpu("pitched", "2D allocations: every row aligned"),
      on_gpu("unrolled", "loops of known length, unrolled"),
      on_gpu("coalesced", "adjacent threads load adjacent floats"),
      on_gpu("registers", "running max, sum and output in registers"),
      on_gpu("q-stationary", "keys looped over in the kernel: one launch, grid (N / 32, B)"),
      on_gpu("float4", "four floats per load"),
      on_gpu("fast-math", "the same source compiled with --use_fast_math"),
      on_gpu("one-stream", "copies and kernel queued on one stream, one wait"),
      on_gpu("four-streams", "one copy stream each for Q, K, V and O, batches in chunks"),
      on_gpu("pinned", "page-locked host memory: copies overlap"),
      on_gpu("library", "the library's kernel: tensor cores", Sizes::any),
  };
  return kRungs;
}

const Rung& find_rung(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Rung& rung : rungs()) {
    if (rung.name == name) return rung;
    names.push_back(rung.name);
  }
  fail(ErrorCode::invalid_argument, "rung {}: unknown; valid: {}", printable_value(name), fmt::join(names, ", "));
}

std::string refusal_of(const Rung& rung, const RungProblem& problem) {
  if (!rung.run) return "not in this build: it has no CUDA";
  if (rung.processor == Processor::gpu) {
    static const std::string kReason = gpu_inventory().reason;
    if (!kReason.empty()) return kReason;
  }
  if (rung.sizes == Sizes::any) return "";
  if (problem.dim != 32 && problem.dim != 64) return fmt::format("d {}: this rung needs d 32 or 64", problem.dim);
  if (problem.rows % 32 != 0) return fmt::format("N {}: this rung needs a multiple of 32", problem.rows);
  if (problem.batch > 65535) return fmt::format("B {}: this rung needs at most 65535", problem.batch);
  return "";
}

}  // namespace strobe::lab
