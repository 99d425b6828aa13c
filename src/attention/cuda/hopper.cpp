// The kernels for Hopper as a row of the kernel list, all on wgmma, with few score options: fp16 and bf16 with the copy
// engine, and fp32 in two parts an element.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "attention/cuda/in_vectors.h"
#include "attention/cuda/params.h"
#include "attention/cuda/sm90/backward/launch.h"
#include "attention/cuda/sm90/backward_fp32/launch.h"
#include "attention/cuda/sm90/forward/launch.h"
#include "attention/cuda/sm90/forward_fp32/launch.h"
#include "attention/cuda/sm90/tensor_map.h"
#include "attention/kernel_list.h"
#include "core/divide.h"
#include "core/fail.h"
#include "core/philox.h"

namespace strobe {

namespace {

using namespace cuda;

constexpr int kHopper = 90;
constexpr std::size_t kHopperSharedBytes = 227 << 10;             // a block's, at most
static_assert(sm90::kMostFp32Dim <= sm90::kMostFp32BackwardDim);  // one limit refuses for both passes
static_assert(sm90::kMostDroppingDim == 128);                     // as a refusal says
constexpr std::int64_t kFewRows = 64;  // of a group's heads: flash2 puts them into one tile and splits the keys

#ifdef STROBE_SM90A
constexpr bool kBuiltIn = true;
#else
constexpr bool kBuiltIn = false;
#endif

// Whether rows see different numbers of keys.
bool is_uneven(const Problem& problem) {
  return problem.masked() || problem.packed || problem.lengths_q || problem.lengths_k;
}

bool is_fp32(const Problem& problem) { return problem.dtype == DType::fp32; }

// Whether a weight may be dropped, as the kernels see it: with p below 2^-32 none is.
bool drops(const Problem& problem) { return dropout_threshold(problem.dropout.p) != 0; }

// Keys that a row sees at most; 0: as many as there are.
std::int64_t window_of(const Problem& problem) {
  const std::int64_t left = problem.window.left, right = problem.causal ? 0 : problem.window.right;
  const bool ends = left >= 0 && right >= 0 && left < problem.max_k && right < problem.max_k;
  return ends && left + right + 1 < problem.max_k ? left + right + 1 : 0;
}

sm90::ForwardFacts forward_facts_of(const Problem& problem) {
  return {.d = static_cast<int>(problem.d),
          .dv = static_cast<int>(problem.dv),
          .heads = problem.batch * problem.heads_q,
          .max_q = problem.max_q,
          .max_k = problem.max_k,
          .window = window_of(problem),
          .multiprocessors = problem.gpu.multiprocessors,
          .uneven = is_uneven(problem),
          .drops = drops(problem)};
}

// As chosen, or as STROBE_HOPPER_TILES says.
sm90::ForwardConfig forward_config_of(const Problem& problem) {
  const sm90::ForwardFacts facts = forward_facts_of(problem);
  const char* const tiles = std::getenv("STROBE_HOPPER_TILES");
  if (!tiles || !*tiles || facts.drops) return sm90::forward_config(facts);
  const std::string_view name = tiles;
  if (name == "table") return sm90::forced_config(facts, 0, 1);
  if (name == "128") return sm90::forced_config(facts, 128, 1);
  if (name == "64") return sm90::forced_config(facts, 64, 1);
  int splits = 0;
  const char* const end = name.data() + name.size();
  const bool read = name.starts_with("64x") && std::from_chars(name.data() + 3, end, splits).ptr == end;
  if (!read || splits < 2 || splits > kMostSplits) {
    fail(ErrorCode::invalid_argument, "cuda: STROBE_HOPPER_TILES is '{}'; valid are table, 128, 64, and 64x2 to 64x{}",
         name, kMostSplits);
  }
  return sm90::forced_config(facts, 64, splits);
}

sm90::ForwardLaunch forward_launch_of(const Problem& problem) {
  return {.config = forward_config_of(problem),
          .dtype = problem.dtype,
          .uneven = is_uneven(problem),
          .rows = rows_of(problem),
          .multiprocessors = problem.gpu.multiprocessors,
          .stream = problem.stream};
}

sm90::Fp32ForwardLaunch fp32_launch_of(const Problem& problem) {
  return {.config = sm90::fp32_config(forward_facts_of(problem)),
          .uneven = is_uneven(problem),
          .rows = rows_of(problem),
          .multiprocessors = problem.gpu.multiprocessors,
          .stream = problem.stream};
}

sm90::BackwardConfig backward_config_of(const Problem& problem) {
  const auto d = static_cast<int>(std::max(problem.d, problem.dv));
  if (is_fp32(problem)) return sm90::fp32_backward_config(d);
  return sm90::backward_config({.d = d,
                                .heads = problem.batch * problem.heads_kv,
                                .max_k = problem.max_k,
                                .multiprocessors = problem.gpu.multiprocessors,
                                .uneven = is_uneven(problem),
                                .deterministic = problem.deterministic});
}

sm90::BackwardLaunch backward_launch_of(const Problem& problem) {
  return {.config = backward_config_of(problem),
          .dtype = problem.dtype,
          .deterministic = problem.deterministic,
          .multiprocessors = problem.gpu.multiprocessors,
          .stream = problem.stream};
}

std::size_t shared_bytes_of(const Problem& problem) {
  if (problem.pass == Pass::backward) return backward_config_of(problem).shared_bytes;
  return is_fp32(problem) ? fp32_launch_of(problem).config.shared_bytes
                          : forward_launch_of(problem).config.shared_bytes;
}

const char* option_of(const Problem& problem) {
  if (problem.pass == Pass::backward && problem.softcap != 0) return "a softcap in the backward pass";
  if (problem.pass == Pass::backward && problem.sinks) return "sinks in the backward pass";
  if (is_fp32(problem) && problem.tf32) return "tf32: it computes fp32 in full";
  if (is_fp32(problem) && problem.softcap != 0) return "a softcap in fp32";
  if (problem.alibi_slopes) return "ALiBi slopes";
  if (problem.has_bias) return "a bias";
  if (drops(problem)) {
    if (problem.pass == Pass::backward) return "dropout in the backward pass";
    if (is_fp32(problem)) return "dropout in fp32";
    if (std::max(problem.d, problem.dv) > sm90::kMostDroppingDim) return "dropout with head dimensions beyond 128";
  }
  if (!(problem.scale > 0)) return "a scale that is not positive";
  return nullptr;
}

// Where only bytes or an explanation are asked for, outputs and dO are not known yet.
bool outputs_are_known(const Problem& problem) {
  return problem.pass == Pass::forward ? problem.o.data != nullptr : problem.dq.data != nullptr;
}

std::string rows_refusal(const char* in_parts) {
  return in_parts ? fmt::format("{} has rows that are not whole multiples of 16 bytes", in_parts) : "";
}

// In fp32 threads load the elements, and the copy engine has no say.
std::string input_refusal(const Problem& p) {
  if (is_fp32(p)) {
    return rows_refusal(!in_vectors(p.q) ? "q" : !in_vectors(p.k) ? "k" : !in_vectors(p.v) ? "v" : nullptr);
  }
  std::string reason = sm90::map_refusal("q", p.q);
  if (reason.empty()) reason = sm90::map_refusal("k", p.k);
  if (reason.empty()) reason = sm90::map_refusal("v", p.v);
  return reason;
}

std::string output_refusal(const Problem& p) {
  if (p.pass == Pass::forward) return rows_refusal(in_vectors(p.o) ? nullptr : "o");
  if (!is_fp32(p)) {
    if (std::string reason = sm90::map_refusal("dO", p.d_o); !reason.empty()) return reason;
  }
  return rows_refusal(!in_vectors(p.d_o)      ? "dO"
                      : !in_vectors(p.dq)     ? "dQ"
                      : !in_vectors(p.dk)     ? "dK"
                      : !in_vectors(p.dv_out) ? "dV"
                                              : nullptr);
}

std::string refusal(const Problem& problem) {
  if (problem.device != Device::cuda) return "it runs on a GPU";
  if (std::string reason = common_refusal(problem); !reason.empty()) return reason;
  if (!kBuiltIn) return "this build has no machine code for sm_90a";
  if (problem.gpu.compute_capability != kHopper) {
    return fmt::format("it is for compute capability 9.0; the GPU has {}.{}", problem.gpu.compute_capability / 10,
                       problem.gpu.compute_capability % 10);
  }
  if (const char* option = option_of(problem)) return fmt::format("it does not do {}", option);
  const std::int64_t most_dim = is_fp32(problem) ? sm90::kMostFp32Dim : kMostTiledDim;
  if (problem.d > most_dim || problem.dv > most_dim) {
    return fmt::format("head dimensions {} and {}; it takes up to {} in {}", problem.d, problem.dv, most_dim,
                       name_of(problem.dtype));
  }
  if (problem.max_k <= kFewKeys) return fmt::format("{} keys; it takes more than {}", problem.max_k, kFewKeys);
  if (problem.max_q * problem.group <= kFewRows) {
    return fmt::format("{} rows of a group of heads; for up to {} flash2 is faster", problem.max_q * problem.group,
                       kFewRows);
  }
  // No tile needs more than a Hopper has; a card of less is one that STROBE_CUDA_SHARED_KB or a test made up.
  const std::size_t had = problem.gpu.shared_bytes_per_block;
  if (const std::size_t needed = had < kHopperSharedBytes ? shared_bytes_of(problem) : 0; needed > had) {
    return fmt::format("it needs {} bytes of shared memory a block; the GPU has {}", needed, had);
  }
  std::string reason = input_refusal(problem);
  if (reason.empty() && outputs_are_known(problem)) reason = output_refusal(problem);
  // Of rows or of keys: in a packed batch max_q and max_k may be far above what there is. A backward counts both in
  // one: by tickets, or in fp32, whose tiles have 32 rows or more, as blocks of a launch.
  const std::int64_t least = is_fp32(problem) ? 32 : 64;
  const std::int64_t rows = problem.batch * problem.heads_q * ceil_div(problem.max_q, least);
  const std::int64_t keys = problem.batch * problem.heads_kv * ceil_div(problem.max_k, least);
  const std::int64_t tiles = problem.pass == Pass::backward ? rows + keys : std::max(rows, keys);
  if (reason.empty() && tiles >= std::int64_t{1} << 31) reason = fmt::format("{} tiles; it counts in 31 bits", tiles);
  return reason;
}

std::string reserve(const Problem& problem) {
  if (!is_fp32(problem)) return {};
  const std::int64_t d = std::max(problem.d, problem.dv);
  if (problem.pass == Pass::forward) {
    if (d > sm90::kFewFp32Dims) return {};
    return fmt::format("by name only: in fp32 flash2 is faster up to head dimension {}", sm90::kFewFp32Dims);
  }
  const bool many = problem.max_k >= sm90::kManyFp32BackwardKeys && d > sm90::kFewestFp32BackwardDims;
  if (d > sm90::kFewFp32BackwardDims || many) return {};
  return fmt::format("by name only: up to head dimension {} flash2 serves, but for {} keys and more above {}",
                     sm90::kFewFp32BackwardDims, sm90::kManyFp32BackwardKeys, sm90::kFewestFp32BackwardDims);
}

std::string configuration(const Problem& problem) {
  if (problem.pass == Pass::backward) {
    const sm90::BackwardConfig config = backward_config_of(problem);
    std::string text =
        fmt::format("wgmma, head dimension {}, tiles of {} rows x {} keys, {} warpgroups{}, {} stages, dQ {}", config.d,
                    config.shape.rows, config.shape.keys, sm90::kBackwardConsumers,
                    config.shape.share == sm90::Share::tiles ? " in turns" : "", sm90::stages_of(config.shape),
                    problem.deterministic ? "added in order" : "added in any order");
    if (!is_fp32(problem)) return text;
    text +=
        ", two scaled fp16 parts an element, or three bf16 ones where rows differ too much in size "
        "or LSE is large";
    if (const std::string reason = reserve(problem); !reason.empty()) text += fmt::format(" ({})", reason);
    return text;
  }
  if (is_fp32(problem)) {
    const sm90::Fp32Config config = fp32_launch_of(problem).config;
    std::string text = fmt::format(
        "wgmma, head dimension {}, tiles of {} rows x {} keys, {} warpgroups that multiply and {} that split, {} "
        "stages, {} of Q, two scaled fp16 parts an element",
        config.d, rows_of(config.shape), config.shape.keys, config.shape.consumers, config.shape.splitters,
        config.shape.stages, config.shape.q_stages);
    if (config.splits > 1) text += fmt::format(", keys split {} ways", config.splits);
    if (const std::string reason = reserve(problem); !reason.empty()) text += fmt::format(" ({})", reason);
    return text;
  }
  const sm90::ForwardConfig config = forward_launch_of(problem).config;
  std::string text =
      fmt::format("wgmma, head dimensions {} and {}, tiles of {} rows x {} keys, {} warpgroup{}, {} stages, {} of Q",
                  config.dims.d, config.dims.dv, rows_of(config.shape), config.shape.keys, config.shape.consumers,
                  config.shape.shares           ? "s in turns"
                  : config.shape.passes         ? "s that pass tiles they do not use"
                  : config.shape.consumers == 1 ? ""
                                                : "s",
                  config.shape.stages, config.shape.q_stages);
  if (config.splits > 1) text += fmt::format(", keys split {} ways", config.splits);
  return text;
}

// Where only bytes are asked for, outputs and dO are not known, and they may make flash2 take over.
std::size_t workspace_bytes(const Problem& problem) {
  const bool forward = problem.pass == Pass::forward;
  const std::size_t own =
      is_fp32(problem)
          ? (forward ? sm90::fp32_forward_workspace_bytes(fp32_launch_of(problem))
                     : sm90::fp32_backward_workspace_bytes(backward_launch_of(problem), backward_params_of(problem)))
          : (forward ? sm90::forward_workspace_bytes(forward_launch_of(problem))
                     : sm90::backward_workspace_bytes(backward_launch_of(problem), problem));
  return outputs_are_known(problem) ? own : std::max(own, kFlash2Cuda.workspace_bytes(problem));
}

void run(const Problem& problem, void* workspace) {
  if (problem.pass == Pass::backward) {
    const auto launch = is_fp32(problem) ? sm90::launch_fp32_backward : sm90::launch_backward;
    return launch(backward_launch_of(problem), backward_params_of(problem), workspace);
  }
  if (is_fp32(problem)) return sm90::launch_fp32_forward(fp32_launch_of(problem), params_of(problem), workspace);
  sm90::launch_forward(forward_launch_of(problem), params_of(problem), workspace);
}

}  // namespace

const Kernel kHopperCuda{"hopper", Device::cuda, refusal, configuration, workspace_bytes, run, reserve};

}  // namespace strobe
