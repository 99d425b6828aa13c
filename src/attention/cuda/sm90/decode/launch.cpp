// Plan and launch of the Hopper decode kernel.
#include "attention/cuda/sm90/decode/launch.h"

#include <fmt/format.h>

#include "attention/cuda/problem.h"
#include "attention/cuda/sm90/refusal.h"
#include "attention/cuda/sm90/tensor_map.h"
#include "attention/kernel_list.h"
#include "device/cuda/start_kernel.h"

namespace strobe::cuda {

namespace sm90 {

namespace {

constexpr double kLog2Of_e = 1.4426950408889634;

const char* option_refused(const Problem& problem) {
  if (problem.has_mask) return "a boolean mask with few rows";
  if (problem.has_bias) return "a bias with few rows";
  if (problem.alibi_slopes) return "ALiBi slopes with few rows";
  if (problem.softcap != 0) return "a softcap with few rows";
  if (drops(problem)) return "dropout with few rows";
  if (!(problem.scale > 0)) return "a scale that is not positive";
  return nullptr;
}

std::string decode_refusal(const Problem& problem) {
  std::string reason = problem_refusal(problem, option_refused(problem), kMostDecodeDim, 0);
  if (reason.empty()) reason = map_refusal("k", problem.k);
  if (reason.empty()) reason = map_refusal("v", problem.v);
  if (reason.empty()) reason = input_refusal(problem);
  if (reason.empty()) reason = output_refusal(problem);
  if (reason.empty()) reason = tiles_refusal(problem, 64);
  return reason;
}

struct DecodePlan : DecodeLaunch {
  std::string text(const Problem&) const {
    std::string text =
        fmt::format("mma.sync, decode, head dimension {}, {} rows, tiles of {} keys, {} warps, {} stages of K and V",
                    config.d, kDecodeRows, decode_keys(config.d), kDecodeWarps, kDecodeStages);
    if (config.splits > 1) text += fmt::format(", keys split {} ways", config.splits);
    return text;
  }

  void run(const Problem& problem, void* workspace) const {
    const Params params = params_of(problem);
    const int keys = decode_keys(config.d);
    DecodeArgs args;
    args.k = tensor_map(params.k, k_sizes(params), keys);
    args.v = tensor_map(params.v, v_sizes(params), keys);
    args.params = DecodeParams(params);
    args.splits = splits_in(workspace, config.splits, rows_of(problem), config.d);
    args.items = params.batch * params.heads_kv * config.splits;
    args.factor = static_cast<float>(params.scale * kLog2Of_e);
    (config.d == 64 ? DecodeKernels<64>::launch : DecodeKernels<128>::launch)(*this, args);
    combine_splits(params, args.splits, dtype, stream, Waits::in_kernel, {params.first_keys, false});
  }
};

}  // namespace

}  // namespace sm90

Plan plan_sm90_decode(const Problem& problem) {
  if (std::string reason = sm90::decode_refusal(problem); !reason.empty()) return Plan(std::move(reason));
  const sm90::DecodeFacts facts{.d = static_cast<int>(problem.d),
                                .dv = static_cast<int>(problem.dv),
                                .units = problem.batch * problem.heads_kv,
                                .max_seqlen_k = problem.max_seqlen_k,
                                .multiprocessors = problem.gpu.multiprocessors};
  const sm90::DecodePlan launch{{.config = sm90::decode_config(facts),
                                 .dtype = problem.dtype,
                                 .multiprocessors = facts.multiprocessors,
                                 .stream = problem.stream}};
  const std::size_t shared_bytes = sm90::decode_shared_bytes(launch.config.d);
  if (std::string reason = sm90::shared_refusal(problem, shared_bytes); !reason.empty()) {
    return Plan(std::move(reason));
  }
  const std::size_t bytes = splits_bytes(launch.config.splits, rows_of(problem), launch.config.d);
  return Plan(launch, sm90::bytes_with_flash2(problem, bytes));
}

}  // namespace strobe::cuda
