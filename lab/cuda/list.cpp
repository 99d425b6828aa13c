// Maps the names of the course's GPU kernels (rungs, see lab/rung.h) to their functions.
#include "lab/cuda/runs.h"

namespace strobe::lab {

Run gpu_run(std::string_view name) {
  static constexpr std::pair<std::string_view, Run> kRuns[] = {{"five-kernels", run_five_kernels},
                                                               {"shared", run_shared},
                                                               {"padded", run_padded},
                                                               {"pitched", run_pitched},
                                                               {"unrolled", run_unrolled},
                                                               {"coalesced", run_coalesced},
                                                               {"registers", run_registers},
                                                               {"q-stationary", run_q_stationary},
                                                               {"float4", run_float4},
                                                               {"fast-math", run_fast_math},
                                                               {"one-stream", run_one_stream},
                                                               {"four-streams", run_four_streams},
                                                               {"pinned", run_pinned},
                                                               {"library", run_library}};
  for (const auto& [known, run] : kRuns) {
    if (known == name) return run;
  }
  return nullptr;
}

}  // namespace strobe::lab
