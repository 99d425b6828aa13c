// Plan, workspace and kernel sequence of the Hopper backward for fp32.
#include "attention/cuda/sm90/backward_fp32/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "attention/cuda/problem.h"
#include "attention/cuda/sm90/backward/tile_count.h"
#include "attention/cuda/sm90/device/tile_scheduler.h"
#include "attention/cuda/sm90/refusal.h"
#include "attention/kernel_list.h"
#include "device/cuda/check.h"

namespace strobe::cuda {

namespace sm90 {

namespace {

constexpr std::int64_t kElementBytes = 4 + 4 + 4;  // per element: fp32 dQ sum; two split floats of Q and of dO

// Rounds up to whole 128-byte cache lines.
constexpr std::size_t whole_lines(std::size_t bytes) { return (bytes + 127) / 128 * 128; }

std::string refusal(const Problem& problem) {
  const char* option = option_refused(problem, "dropout in the backward pass");
  if (problem.tf32) option = "tf32, because it always computes full fp32";
  if (problem.sinks) option = "sinks in the backward pass";
  if (problem.softcap != 0) option = "a softcap in the backward pass";
  std::string reason = problem_refusal(problem, option, kMostFp32BackwardDim);
  if (reason.empty()) reason = input_refusal(problem);
  if (reason.empty()) reason = output_refusal(problem);
  if (reason.empty()) reason = tiles_refusal(problem, 32);
  return reason;
}

std::string by_name_only(const Problem& problem) {
  const std::int64_t d = std::max(problem.d, problem.dv);
  const bool many = problem.max_seqlen_k >= kManyFp32BackwardKeys && d > kFewestFp32BackwardDims;
  if (d > kFewFp32BackwardDims || many) return {};
  return fmt::format(
      "by name only: flash2 runs head dimensions up to {} unless there are at least {} keys and the dimension is above "
      "{}",
      kFewFp32BackwardDims, kManyFp32BackwardKeys, kFewestFp32BackwardDims);
}

// flash2's backward with three split floats per element. Its kernels compute the row statistics, and replace the Hopper
// kernel if one scale per tile is not enough.
struct Exact {
  sm80::BackwardConfig config;
  sm80::BackwardTiles tiles;

  Exact(int d, const Problem& problem) : config(sm80::exact_config(d)) {
    tiles.deterministic = problem.deterministic;
    tiles.has_row_sums = true;
    sm80::cut_into_tiles(config, problem, tiles);
  }
};

// Sizes of the workspace's buffers in bytes, in layout order. The first three are cleared.
struct Workspace {
  std::size_t dq_sum, counters, spread;
  std::size_t row_facts, delta, log2_sums;
  std::size_t of_rows, of_keys;  // split floats; of_rows for each of Q and dO, of_keys for each of K and V
  std::size_t row_scales, key_scales;

  std::size_t zeros() const { return dq_sum + counters + spread; }
  std::size_t total() const {
    return zeros() + row_facts + delta + log2_sums + 2 * (of_rows + of_keys) + row_scales + key_scales;
  }
};

Workspace workspace_of(const BackwardConfig& config, const Exact& exact, const Problem& problem) {
  const sm80::BackwardWorkspace other = sm80::backward_workspace(exact.config, exact.tiles, problem);
  const SequenceParams p = sequence_params_of(problem);
  const BackwardShape& shape = config.shape;
  const auto rows = static_cast<std::size_t>(row_tiles(p, shape.rows).all),
             keys = static_cast<std::size_t>(key_tiles(p, shape.keys).all);
  Workspace w{};
  w.of_rows = rows * static_cast<std::size_t>(shape.rows) * fp32_split_bytes(config.d);
  w.of_keys = keys * static_cast<std::size_t>(shape.keys) * fp32_split_bytes(config.d);
  // The dQ sums of this kernel have the size of of_rows: 4 bytes per element.
  w.dq_sum = whole_lines(std::max(other.dq_sum, w.of_rows));
  w.counters =
      whole_lines(std::max(other.dq_semaphore, (1 + (problem.deterministic ? rows : 0)) * sizeof(std::uint32_t)));
  w.spread = whole_lines(sizeof(std::uint32_t));
  w.row_facts = whole_lines(other.row_facts), w.delta = whole_lines(other.delta),
  w.log2_sums = whole_lines(other.log2_sums);
  w.row_scales = whole_lines(rows * 2 * sizeof(float)), w.key_scales = whole_lines(keys * 2 * sizeof(float));
  return w;
}

struct Fp32BackwardPlan : BackwardLaunch {
  Exact exact;
  Workspace bytes;

  Fp32BackwardPlan(const BackwardLaunch& launch, const Problem& problem)
      : BackwardLaunch(launch), exact(launch.config.d, problem), bytes(workspace_of(launch.config, exact, problem)) {}

  std::string text(const Problem& problem) const {
    std::string text = text_of(*this) +
                       ", 2xFP16 (two scaled fp16 values per element), or 3xBF16 if magnitudes of rows differ too much "
                       "or LSE is large";
    if (const std::string reason = by_name_only(problem); !reason.empty()) text += fmt::format(" ({})", reason);
    return text;
  }

  void run(const Problem& problem, void* workspace) const;

 private:
  void fill(Fp32SplitArgs& args, const BackwardParams& params) const;
};

void Fp32BackwardPlan::fill(Fp32SplitArgs& args, const BackwardParams& params) const {
  const TileCount rows = row_tiles(params, config.shape.rows), keys = key_tiles(params, config.shape.keys);
  args.params = params;
  args.row_tiles = static_cast<std::int32_t>(rows.of_sequence);
  args.tiles_per_head = rows.of_head;
  args.key_tiles = static_cast<std::int32_t>(keys.of_sequence);
  args.terms.key_tiles_per_head = keys.of_head;
  args.l2_swizzle_heads = static_cast<std::int32_t>(l2_swizzle_heads(
      std::int64_t{params.batch} * params.heads_kv,
      std::int64_t{params.max_seqlen_q} * params.group * config.d * kElementBytes, kBackwardL2SwizzleBytes));
  args.q = params.q, args.k = params.k, args.v = params.v, args.d_o = params.d_o, args.lse = params.lse;
  args.dq = params.dq, args.dk = params.dk, args.dv = params.dv;
}

void Fp32BackwardPlan::run(const Problem& problem, void* workspace) const {
  sm80::BackwardLaunch other{.config = exact.config, .dtype = DType::fp32, .stream = stream, .args = {}};
  static_cast<sm80::BackwardTiles&>(other.args) = exact.tiles;
  other.args.params = backward_params_of(problem);
  Fp32SplitArgs args;
  fill(args, other.args.params);
  auto* at = static_cast<unsigned char*>(workspace);
  const auto take = [&](auto*& to, std::size_t size) {
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(at);
    at += size;
  };
  std::uint32_t* counters = nullptr;
  take(args.dq_sum, bytes.dq_sum);
  take(counters, bytes.counters);
  take(args.terms.spread, bytes.spread);
  take(other.args.row_facts, bytes.row_facts);
  take(other.args.delta, bytes.delta);
  take(other.args.log2_sums, bytes.log2_sums);
  take(args.terms.q, bytes.of_rows);
  take(args.terms.d_o, bytes.of_rows);
  take(args.terms.k, bytes.of_keys);
  take(args.terms.v, bytes.of_keys);
  take(args.terms.row_scales, bytes.row_scales);
  take(args.terms.key_scales, bytes.key_scales);

  // flash2's kernels and the Hopper kernel share these buffers, because only one of the two adds to dQ.
  other.args.dq_sum = args.dq_sum;
  other.args.spread = args.terms.spread;
  other.args.dq_semaphore = counters;
  other.args.work_counter = deterministic ? counters + sm80::all_row_tiles(exact.tiles, args.params) : counters;
  args.work_counter = deterministic ? counters + row_tiles(args.params, config.shape.rows).all : counters;
  args.dq_semaphore = deterministic ? counters : nullptr;
  args.facts = other.args.row_facts;

  STROBE_CUDA_CHECK(cudaMemsetAsync(workspace, 0, bytes.zeros(), static_cast<cudaStream_t>(stream)));
  const auto launch = [&](auto flash2, auto hopper) {
    flash2.launch_row_sums(other);
    hopper.launch(*this, args);
    flash2.launch_tiles(other);
  };
  if (config.d == 64) {
    launch(sm80::BackwardKernels<64>(), Fp32BackwardKernels<64>());
  } else {
    launch(sm80::BackwardKernels<128>(), Fp32BackwardKernels<128>());
  }
}

}  // namespace

}  // namespace sm90

Plan plan_sm90_backward_fp32(const Problem& problem) {
  if (std::string reason = sm90::refusal(problem); !reason.empty()) return Plan(std::move(reason));
  const sm90::BackwardLaunch launch{
      .config = sm90::fp32_backward_config(static_cast<int>(std::max(problem.d, problem.dv))),
      .dtype = problem.dtype,
      .deterministic = problem.deterministic,
      .multiprocessors = problem.gpu.multiprocessors,
      .stream = problem.stream};
  if (std::string reason = sm90::shared_refusal(problem, launch.config.shared_bytes); !reason.empty()) {
    return Plan(std::move(reason));
  }
  const sm90::Fp32BackwardPlan own(launch, problem);
  Plan plan(own, sm90::bytes_with_flash2(problem, own.bytes.total()));
  plan.by_name_only = sm90::by_name_only(problem);
  return plan;
}

}  // namespace strobe::cuda
