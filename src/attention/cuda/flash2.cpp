// flash2 on CUDA as a row of the kernel list: from a Problem to a plan and a launch.
#include "attention/cuda/fp32/launch.h"
#include "attention/cuda/in_vectors.h"
#include "attention/cuda/params.h"
#include "attention/cuda/sm80/backward/launch.h"
#include "attention/cuda/sm80/forward/launch.h"
#include "attention/cuda/splits.h"
#include "attention/kernel_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace strobe {

namespace {

using namespace cuda;
using sm80::BackwardConfig;
using sm80::BackwardKind;
using sm80::ForwardConfig;
using sm80::ForwardFacts;
using sm80::ForwardKind;

const char* name_of(BackwardKind kind) {
  return kind == BackwardKind::plain ? "plain" : kind == BackwardKind::options ? "options" : "general";
}

// How the tensor cores get an fp32 element, for `explain`.
const char* text_of(Parts parts) {
  switch (parts) {
    case Parts::whole: return "";
    case Parts::rounded: return ", elements rounded to the 11 bits of tf32";
    case Parts::scaled: return ", two scaled fp16 parts an element";
    case Parts::full: return ", three bf16 parts an element";
  }
  return "";
}

bool has_options(const Problem& problem) {
  return problem.softcap != 0 || problem.alibi_slopes || problem.has_bias || problem.dropout.p != 0 ||
         !(problem.scale > 0);
}

template <class... Views>
bool all_in_vectors(const Views&... views) {
  return (in_vectors(views) && ...);
}

bool has_few_keys(const Problem& problem) { return problem.max_k <= kFewKeys; }

// Whether kernels that are not general can take the bias: 16 bytes at a time to shared memory, fewer at a row's end.
bool bias_takes_vectors(const Problem& problem) {
  const ConstView& bias = problem.bias;
  if (!problem.has_bias) return true;
  const auto whole = [](std::int64_t elements) { return elements % 8 == 0; };
  return bias.dtype != DType::fp32 && reinterpret_cast<std::uintptr_t>(bias.data) % 16 == 0 && whole(bias.stride[2]) &&
         whole(bias.stride[1]) && whole(bias.stride[0]);
}

// fp32 goes through registers in the forward pass, whatever its rows are.
bool forward_is_general(const Problem& problem) {
  return has_few_keys(problem) || !bias_takes_vectors(problem) ||
         (problem.dtype != DType::fp32 && !all_in_vectors(problem.q, problem.k, problem.v, problem.o));
}

ForwardConfig forward_config_of(const Problem& problem, bool general) {
  ForwardFacts facts;
  facts.d = static_cast<int>(problem.d);
  facts.dv = static_cast<int>(problem.dv);
  facts.fp32 = problem.dtype == DType::fp32;
  facts.tf32 = problem.tf32;
  facts.general = general;
  facts.options = has_options(problem);
  facts.bias = problem.has_bias;
  facts.triangle = problem.causal || problem.window.right >= 0;
  facts.unsplittable = problem.has_bias;  // beside -FLT_MAX a partial LSE forgets how many keys it stands for
  facts.batch = problem.batch;
  facts.heads_q = problem.heads_q;
  facts.heads_kv = problem.heads_kv;
  facts.max_q = problem.max_q;
  facts.max_k = problem.max_k;
  facts.shared_bytes_per_block = problem.gpu.shared_bytes_per_block;
  facts.multiprocessors = problem.gpu.multiprocessors;
  return sm80::forward_config(facts);
}

bool backward_is_general(const Problem& p) {
  return has_few_keys(p) || !bias_takes_vectors(p) || !all_in_vectors(p.q, p.k, p.v, p.d_o, p.dq, p.dk, p.dv_out);
}

BackwardConfig backward_config_of(const Problem& problem, bool general) {
  return sm80::backward_config({.fp32 = problem.dtype == DType::fp32,
                                .tf32 = problem.tf32,
                                .d = static_cast<int>(problem.d),
                                .dv = static_cast<int>(problem.dv),
                                .options = has_options(problem),
                                .bias = problem.has_bias,
                                .general = general,
                                .shared_bytes_per_block = problem.gpu.shared_bytes_per_block});
}

sm80::BackwardArgs backward_args(const Problem& problem, const BackwardConfig& config, const BackwardParams& params) {
  sm80::BackwardArgs args;
  args.params = params;
  args.deterministic = problem.deterministic;
  args.exact_delta = problem.dropout.p != 0 || has_few_keys(problem);
  args.has_row_sums = problem.dtype == DType::fp32 || problem.has_bias || args.exact_delta;
  sm80::backward_tiles(config, args);
  if (problem.wants_dbias) {
    const auto size = [&](std::size_t i) { return static_cast<std::int32_t>(problem.dbias.shape[i]); };
    sm80::plan_dbias(config, {size(0), size(1), size(2), size(3)}, problem.gpu.multiprocessors, args);
  }
  return args;
}

std::size_t shared_bytes(const Problem& problem) {
  return problem.pass == Pass::forward ? forward_config_of(problem, forward_is_general(problem)).shared_bytes
                                       : backward_config_of(problem, backward_is_general(problem)).shared_bytes;
}

// Tiles that do not fit the card: fp32 has a kernel without any.
bool on_cuda_cores(const Problem& problem) {
  return problem.dtype == DType::fp32 && shared_bytes(problem) > problem.gpu.shared_bytes_per_block;
}

std::string refusal(const Problem& problem) {
  if (problem.device != Device::cuda) return "it runs on a GPU";
  if (std::string reason = common_refusal(problem); !reason.empty()) return reason;
  if (problem.d > kMostTiledDim || problem.dv > kMostTiledDim) {
    return fmt::format("head dimensions {} and {}; it takes up to {}", problem.d, problem.dv, kMostTiledDim);
  }
  const std::size_t needed = shared_bytes(problem);
  if (problem.dtype != DType::fp32 && needed > problem.gpu.shared_bytes_per_block) {
    return fmt::format("{} with head dimensions {} and {} needs {} bytes of shared memory a block; the GPU has {}",
                       name_of(problem.dtype), problem.d, problem.dv, needed, problem.gpu.shared_bytes_per_block);
  }
  return {};
}

std::string configuration(const Problem& problem) {
  if (on_cuda_cores(problem)) return "CUDA cores, a warp a row";
  if (problem.pass == Pass::backward) {
    const BackwardConfig config = backward_config_of(problem, backward_is_general(problem));
    return fmt::format("mma.sync, {}, head dimension {}, tiles of {} rows x {} keys, {} warps, {} stages, dQ {}{}",
                       name_of(config.kind), config.d, config.shape.rows, config.shape.keys, config.shape.warps,
                       config.stages, problem.deterministic ? "added in order" : "added in any order",
                       text_of(config.parts)) +
           (has_scales(config.parts) ? ", or three bf16 ones where rows differ too much in size" : "");
  }
  const ForwardConfig config = forward_config_of(problem, forward_is_general(problem));
  const char* kind = config.kind == ForwardKind::plain     ? "plain"
                     : config.kind == ForwardKind::options ? "options"
                     : config.kind == ForwardKind::small   ? "small"
                                                           : "general";
  std::string text =
      fmt::format("mma.sync, {}, head dimension {}, tiles of {} rows x {} keys, {} warps, {} stages", kind, config.d,
                  config.shape.rows, config.shape.keys, config.shape.warps, config.stages);
  if (config.splits > 1) text += fmt::format(", keys split {} ways", config.splits);
  text += text_of(config.parts);
  return text;
}

// Whether rows take vectors is not known where only bytes are asked for: enough for both.
std::size_t workspace_bytes(const Problem& problem) {
  if (on_cuda_cores(problem)) {
    return problem.pass == Pass::forward ? 0 : fp32::backward_bytes(static_cast<std::size_t>(rows_of(problem)));
  }
  std::size_t most = 0;
  for (const bool general : {has_few_keys(problem), true}) {
    if (problem.pass == Pass::forward) {
      const ForwardConfig config = forward_config_of(problem, general);
      most = std::max(most, splits_bytes(config.splits, rows_of(problem), config.d));
    } else {
      const BackwardConfig config = backward_config_of(problem, general);
      const auto args = backward_args(problem, config, backward_params_of(problem));
      most = std::max(most, sm80::backward_workspace(config, args, problem.dtype).total());
    }
  }
  return most;
}

void run_forward(const Problem& problem, void* workspace) {
  sm80::ForwardLaunch launch;
  launch.config = forward_config_of(problem, forward_is_general(problem));
  launch.dtype = problem.dtype;
  launch.stream = problem.stream;
  launch.args.params = params_of(problem);
  sm80::launch_forward(launch, rows_of(problem), workspace);
}

void run_backward(const Problem& problem, void* workspace) {
  sm80::BackwardLaunch launch;
  launch.config = backward_config_of(problem, backward_is_general(problem));
  launch.dtype = problem.dtype;
  launch.stream = problem.stream;
  launch.args = backward_args(problem, launch.config, backward_params_of(problem));
  sm80::launch_backward(launch, workspace);
}

void run_on_cuda_cores(const Problem& problem, void* workspace) {
  if (problem.pass == Pass::forward) return fp32::launch_forward(params_of(problem), problem.stream);
  const BackwardParams params = backward_params_of(problem);
  fp32::DbiasSizes dbias;
  if (problem.wants_dbias) {
    const auto size = [&](std::size_t i) { return static_cast<int>(problem.dbias.shape[i]); };
    dbias = {size(0), size(1), size(2), size(3)};
  }
  fp32::launch_backward(params, dbias, workspace, problem.stream);
}

void run(const Problem& problem, void* workspace) {
  if (on_cuda_cores(problem)) return run_on_cuda_cores(problem, workspace);
  if (problem.pass == Pass::forward) {
    run_forward(problem, workspace);
  } else {
    run_backward(problem, workspace);
  }
}

}  // namespace

const Kernel kFlash2Cuda{"flash2", Device::cuda, refusal, configuration, workspace_bytes, run};

}  // namespace strobe
