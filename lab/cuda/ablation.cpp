// Lists the variants of rung `pinned`. Each leaves out one idea, in the host code or in the kernel.
#include "lab/cuda/ablation.h"

#include "lab/experiments.h"

namespace strobe::lab {
namespace {

template <Idea kWithout>
Split run_without(const RungProblem& problem, float* o) {
  const Streams streams{.count = kWithout == Idea::streams ? 1 : 4,
                        .pinned = kWithout != Idea::pinned,
                        .layout = kWithout == Idea::pitched ? RowPitch::packed : RowPitch::pitched};
  return run_on_streams(problem, o, streams, [](const Tensors& t, cudaStream_t stream) {
    return kWithout == Idea::fast_math ? launch_without_fast_math(t, stream) : launch_without(kWithout, t, stream);
  });
}

}  // namespace

std::span<const Variant> ablation() {
  static constexpr Variant kVariants[] = {{"", run_without<Idea::none>},
                                          {"padded", run_without<Idea::padded>},
                                          {"pitched", run_without<Idea::pitched>},
                                          {"unrolled", run_without<Idea::unrolled>},
                                          {"coalesced", run_without<Idea::coalesced>},
                                          {"registers", run_without<Idea::registers>},
                                          {"q-stationary", run_without<Idea::q_stationary>},
                                          {"float4", run_without<Idea::float4>},
                                          {"fast-math", run_without<Idea::fast_math>},
                                          {"four-streams", run_without<Idea::streams>},
                                          {"pinned", run_without<Idea::pinned>}};
  return kVariants;
}

}  // namespace strobe::lab
