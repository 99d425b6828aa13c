// Plan and launch of the Hopper forward for fp32.
#include "attention/cuda/sm90/forward_fp32/launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "attention/cuda/problem.h"
#include "attention/cuda/sm90/forward/scheduler.h"
#include "attention/cuda/sm90/refusal.h"
#include "attention/kernel_list.h"
#include "device/cuda/check.h"
#include "device/cuda/start_kernel.h"

namespace strobe::cuda {

namespace sm90 {

namespace {

constexpr double kLog2Of_e = 1.4426950408889634;

Fp32ForwardArgs args_of(const Fp32ForwardLaunch& launch, const Params& params, void* workspace) {
  const Fp32Config& config = launch.config;
  Fp32ForwardArgs args;
  args.params = Fp32ForwardParams(params);
  args.scheduler = forward_scheduler(params, rows_of(config.shape), config.splits);
  args.factor = static_cast<float>(params.scale * kLog2Of_e);
  args.natural = static_cast<float>(static_cast<double>(params.scale) / args.factor);
  if (config.splits > 1) {
    char* const partial = static_cast<char*>(workspace) + kForwardCounterBytes;
    args.splits = splits_in(partial, config.splits, launch.rows, config.d);
  }
  if (uses_work_counter(args.scheduler, launch.uneven, launch.multiprocessors)) {
    args.scheduler.l2_swizzle = forward_l2_swizzle(params, 4);
    args.scheduler.next = static_cast<std::uint32_t*>(workspace);
    STROBE_CUDA_CHECK(cudaMemsetAsync(workspace, 0, sizeof(std::uint32_t), static_cast<cudaStream_t>(launch.stream)));
  }
  return args;
}

std::string refusal(const Problem& problem) {
  const char* option = option_refused(problem, "dropout in fp32");
  if (problem.softcap != 0) option = "a softcap in fp32";
  if (problem.tf32) option = "tf32, because it always computes full fp32";
  std::string reason = problem_refusal(problem, option, kMostFp32Dim);
  if (reason.empty()) reason = input_refusal(problem);
  if (reason.empty()) reason = output_refusal(problem);
  if (reason.empty()) reason = tiles_refusal(problem, 32);
  return reason;
}

std::string by_name_only(const Problem& problem) {
  if (std::max(problem.d, problem.dv) > kFewFp32Dims) return {};
  return fmt::format("by name only: in fp32 flash2 is faster up to head dimension {}", kFewFp32Dims);
}

std::size_t workspace_bytes(const Fp32ForwardLaunch& launch) {
  const std::size_t partial = splits_bytes(launch.config.splits, launch.rows, launch.config.d);
  return launch.uneven || partial > 0 ? kForwardCounterBytes + partial : 0;
}

struct Fp32ForwardPlan : Fp32ForwardLaunch {
  std::string text(const Problem& problem) const {
    const Fp32Shape& shape = config.shape;
    std::string text = fmt::format(
        "wgmma, head dimension {}, tiles of {} rows x {} keys, {} MMA and {} splitting warpgroups, {} stages of K and "
        "V, {} of Q, "
        "2xFP16 (two scaled fp16 values per element)",
        config.d, rows_of(shape), shape.keys, shape.consumers, shape.splitters, shape.stages, shape.q_stages);
    if (config.splits > 1) text += fmt::format(", keys split {} ways", config.splits);
    if (const std::string reason = by_name_only(problem); !reason.empty()) text += fmt::format(" ({})", reason);
    return text;
  }

  void run(const Problem& problem, void* workspace) const {
    const Fp32ForwardArgs args = args_of(*this, params_of(problem), workspace);
    (config.d == 64 ? Fp32ForwardKernels<64>::launch : Fp32ForwardKernels<128>::launch)(*this, args);
    combine_splits(args.params, args.splits, DType::fp32, stream, Waits::in_kernel);
  }
};

}  // namespace

}  // namespace sm90

Plan plan_sm90_forward_fp32(const Problem& problem) {
  if (std::string reason = sm90::refusal(problem); !reason.empty()) return Plan(std::move(reason));
  const sm90::ForwardFacts facts{.d = static_cast<int>(problem.d),
                                 .dv = static_cast<int>(problem.dv),
                                 .heads = problem.batch * problem.heads_q,
                                 .max_seqlen_q = problem.max_seqlen_q,
                                 .max_seqlen_k = problem.max_seqlen_k,
                                 .multiprocessors = problem.gpu.multiprocessors};
  const sm90::Fp32ForwardPlan launch{{.config = sm90::fp32_config(facts),
                                      .uneven = sm90::is_uneven(problem),
                                      .rows = rows_of(problem),
                                      .multiprocessors = problem.gpu.multiprocessors,
                                      .stream = problem.stream}};
  if (std::string reason = sm90::shared_refusal(problem, launch.config.shared_bytes); !reason.empty()) {
    return Plan(std::move(reason));
  }
  Plan plan(launch, sm90::bytes_with_flash2(problem, sm90::workspace_bytes(launch)));
  plan.by_name_only = sm90::by_name_only(problem);
  return plan;
}

}  // namespace strobe::cuda
