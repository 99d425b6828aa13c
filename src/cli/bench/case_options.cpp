// Parses the flags of a case and fills in defaults. The defaults are those of the source reports
// (docs/source-report.md): batch 32, sequence 1024, 32 heads, embedding 2048, fp16. On a CPU, batch, heads and
// embedding are smaller.
#include "cli/bench/case_options.h"

#include <algorithm>
#include <limits>

#include "app/common_options.h"
#include "app/program.h"
#include "bench/implementation.h"
#include "core/fail.h"
#include "core/printable.h"
#include "device/device_info.h"
#include "device/gpu_facts.h"

namespace strobe::cli {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostSize = std::int64_t{1} << 40;

Window parse_window(std::string_view flag, std::string_view value) {
  const auto refuse = [&] {
    fail(ErrorCode::invalid_argument,
         "{} {}: valid: LEFT:RIGHT, two whole numbers of keys, such as 128:0; -1 leaves a side open", flag,
         printable_value(value));
  };
  const std::vector<std::string> sides = split(value, ':');
  if (sides.size() != 2) refuse();
  try {
    return {parse_integer(flag, sides[0], -1, kMost), parse_integer(flag, sides[1], -1, kMost)};
  } catch (const Error&) {
    refuse();  // this error shows both sides
  }
  return {};
}

void parse_implementations(CaseOptions& options, std::string_view value) {
  options.implementations.clear();
  options.names_pytorch = false;
  for (const std::string& name : split(value, ',')) {
    if (name.empty()) {
      fail(ErrorCode::invalid_argument, "--impl \"{}\": an empty name; valid: {}, Pytorch (= standard)",
           printable(value), fmt::join(bench::implementation_names(), ", "));
    }
    const std::string canonical = bench::canonical_name(name);
    for (const std::string& known : options.implementations) {
      if (known == canonical)
        fail(ErrorCode::invalid_argument, "--impl {}: {} is named twice; valid: each once", printable(value),
             canonical);
    }
    options.implementations.push_back(canonical);
    options.names_pytorch |= canonical == "standard" && name.size() != canonical.size();
  }
  options.is_list = options.implementations.size() > 1;
}

DType parse_dtype(std::string_view flag, std::string_view value) {
  const std::string word = parse_word(flag, value, {"fp32", "fp16", "bf16"});
  return word == "fp32" ? DType::fp32 : word == "fp16" ? DType::fp16 : DType::bf16;
}

// Returns the Option::apply of a size that must be at least `least`.
auto size_into(std::optional<std::int64_t>& target, std::int64_t least) {
  return [&target, least](auto flag, auto value) {
    if (value.find(',') != value.npos) {
      fail(ErrorCode::invalid_argument, "{} {}: not one whole number; for several sizes: strobe sweep {} {}", flag,
           printable_value(value), flag, printable_value(value));
    }
    target = parse_integer(flag, value, least, kMostSize);
  };
}

void parse_causal(CaseOptions& options, std::string_view flag, std::string_view value) {
  const std::string word = value.empty() ? "on" : parse_word(flag, value, {"off", "on", "both"});
  options.causal = word == "both" ? std::vector<bool>{false, true} : std::vector<bool>{word == "on"};
}

bench::Passes parse_passes(std::string_view flag, std::string_view value) {
  const std::string word = parse_word(flag, value, {"forward", "backward", "both"});
  if (word == "both") return bench::Passes::both;
  return word == "forward" ? bench::Passes::forward : bench::Passes::backward;
}

Alignment parse_alignment(std::string_view flag, std::string_view value) {
  const std::string word = parse_word(flag, value, {"top_left", "bottom_right"});
  return word == "top_left" ? Alignment::top_left : Alignment::bottom_right;
}

}  // namespace

Device parse_device(std::string_view flag, std::string_view value) {
  if (parse_word(flag, value, {"cpu", "cuda"}) == "cpu") return Device::cpu;
  if (only_checks_flags()) return Device::cuda;
  const CurrentGpu gpu = current_gpu();
  if (!gpu.reason.empty()) fail(ErrorCode::unsupported, "{} cuda: {}; valid: cpu", flag, gpu.reason);
  return Device::cuda;
}

void add_configuration_options(OptionTable& table, CaseOptions& options) {
  table.add("batch_size", "N", "default 32", size_into(options.batch, 0), {"batch"});
  table.add("seq_len", "N", "queries, and keys unless --seq_len_k; default 1024", size_into(options.seqlen_q, 0),
            {"seq"});
  table.add("num_heads", "N", "default 32", size_into(options.heads, 1), {"heads"});
  table.add("emb_dim", "N", "width of all heads; head dimension = emb_dim / num_heads; default 2048",
            size_into(options.emb, 1), {"emb"});
  table.add("head_dim", "N", "sets emb_dim to num_heads * N", integer_into(options.head_dim, 1, 1 << 20));
  table.add({.name = "causal",
             .takes = Takes::optional_value,
             .placeholder = "off|on|both",
             .help = "causal mask; --causal without a value is on; default off",
             .apply = [&](auto flag, auto value) { parse_causal(options, flag, value); },
             .words = {"off", "on", "both"}});
  table.add("dtype", "fp32|fp16|bf16", "default fp16", into(options.dtype, parse_dtype));
  table.add_flag("tf32", "allow TF32 (10-bit mantissa); cuda", options.tf32);
  table.add_flag("deterministic",
                 "bitwise reproducible backward on a GPU, as always on a CPU; the library's kernels only",
                 options.deterministic);
  table.add("pass", "forward|backward|both", "passes to time; default both", into(options.passes, parse_passes));
  table.add("num_kv_heads", "N", "KV heads, each shared by num_heads / N query heads; default num_heads",
            size_into(options.kv_heads, 1), {"kv_heads"});
  table.add("seq_len_k", "N", "keys; default seq_len", size_into(options.seqlen_k, 0), {"seq_k"});
  table.add("align", "top_left|bottom_right", "alignment of the diagonal if the numbers of queries and keys differ",
            into(options.alignment, parse_alignment));
  table.add("window", "LEFT:RIGHT", "sliding window: keys to the left and right of the diagonal; -1: unlimited",
            into(options.window, parse_window));
  add_score_options(table, options);
  table.add("cache", "cold|hot", "hot: tensors in the GPU's L2 cache; cold: flushed; default cold",
            [&](auto flag, auto value) {
              const bool hot = parse_word(flag, value, {"cold", "hot"}) == "hot";
              options.cache = hot ? bench::Cache::hot : bench::Cache::cold;
            });
}

void add_case_options(OptionTable& table, CaseOptions& options) {
  table.begin_group("problem");
  add_configuration_options(table, options);
  table.begin_group("implementations and device");
  table.add("impl", "NAME[,NAME]",
            "Flash2, Pytorch (= standard), frugal, reference, torch-sdpa, torch-math, torch-naive, "
            "torch-compile, torch-flex, onednn; on a GPU also hopper, torch-flash, torch-efficient, torch-cudnn, fa3, "
            "cudnn; default Flash2",
            [&](auto, auto value) { parse_implementations(options, value); });
  table.add("device", "cpu|cuda", "default: cuda if there is a GPU", into(options.device, parse_device));
  table.add(make_threads_option("CPU threads", options.threads));
}

std::string place_of(const bench::AttentionCase& one) {
  if (one.device == Device::cpu) return fmt::format("cpu, {} thread{}", one.threads, one.threads == 1 ? "" : "s");
  const GpuInventory inventory = gpu_inventory();
  const auto index = static_cast<std::size_t>(current_gpu().index);
  return "cuda, " + (index < inventory.gpus.size() ? inventory.gpus[index].name : inventory.reason);
}

namespace {

// If only one of the two flags was given, the error names the other's default and suggests values that fit.
void check_heads(const CaseOptions& options, std::int64_t heads, std::int64_t emb) {
  if (emb % heads == 0) return;
  if (!options.emb) {
    fail(ErrorCode::invalid_argument,
         "--num_heads {}: does not divide the default of --emb_dim, {}; give both, such as --emb_dim {}", heads, emb,
         64 * heads);
  }
  const std::int64_t below = std::max(heads, emb / heads * heads), above = (emb / heads + 1) * heads;
  if (!options.heads) {
    fail(ErrorCode::invalid_argument,
         "--emb_dim {}: not a multiple of the default of --num_heads, {}; nearest valid: {} or {}, or give both", emb,
         heads, below, above);
  }
  fail(ErrorCode::invalid_argument, "--emb_dim {}: not a multiple of --num_heads {}; nearest valid: {} or {}", emb,
       heads, below, above);
}

// Throws before the library does, with an error in terms of the flags.
void check_alignment(const CaseOptions& options, std::int64_t seqlen_q, std::int64_t seqlen_k) {
  const bool causal = std::find(options.causal.begin(), options.causal.end(), true) != options.causal.end();
  const bool window = options.window.left >= 0 || options.window.right >= 0;
  if (seqlen_q == seqlen_k || options.alignment != Alignment::unset || !(causal || window || options.scores.alibi))
    return;
  fail(ErrorCode::invalid_argument,
       "--align: not given, but {} with --seq_len {} and --seq_len_k {} needs it; valid: top_left, bottom_right",
       causal   ? "--causal"
       : window ? "--window"
                : "--alibi",
       seqlen_q, seqlen_k);
}

// Returns notes on flags that were given but have no effect here.
std::vector<std::string> notes_on_idle_flags(const CaseOptions& options, Device device) {
  std::vector<std::string> notes;
  const auto idle = [&](bool is_idle, const char* text) {
    if (is_idle) notes.push_back(fmt::format("{} has no effect", text));
  };
  const bool causal = std::find(options.causal.begin(), options.causal.end(), true) != options.causal.end();
  const bool window = options.window.left >= 0 || options.window.right >= 0;
  idle(options.alignment != Alignment::unset && !causal && !window && !options.scores.alibi,
       "--align without --causal, --window or --alibi");
  idle(options.cache == bench::Cache::hot && device == Device::cpu, "--cache hot on a CPU");
  idle(options.deterministic && device == Device::cpu, "--deterministic on a CPU");
  idle(options.deterministic && device == Device::cuda && options.passes == bench::Passes::forward,
       "--deterministic with --pass forward");
  idle(options.scores.bias_gradient && options.passes == bench::Passes::forward, "--bias_gradient with --pass forward");
  return notes;
}

}  // namespace

Cases cases_of(const CaseOptions& options) {
  Cases out;
  std::int64_t batch = options.batch.value_or(32);
  std::int64_t heads = options.heads.value_or(32);
  std::int64_t emb = options.emb.value_or(2048);
  const Device device = options.device.value_or(current_gpu().reason.empty() ? Device::cuda : Device::cpu);
  const bool scale_down = device == Device::cpu;
  std::vector<std::string> changes;
  if (!options.batch && scale_down) {
    batch = 1;
    changes.push_back("--batch_size 32 -> 1");
  }
  if (!options.heads && !options.emb && scale_down) {
    heads = 8;
    emb = 512;
    changes.push_back("--num_heads 32 -> 8");
    if (!options.head_dim) changes.push_back("--emb_dim 2048 -> 512");
  }
  if (options.head_dim) {
    if (options.emb) {
      fail(ErrorCode::invalid_argument, "--head_dim {}: with --emb_dim {}; valid: one of the two", *options.head_dim,
           *options.emb);
    }
    emb = heads * *options.head_dim;
  }
  if (!changes.empty()) {
    out.notes.push_back(fmt::format("defaults scaled for a CPU: {}; name a flag to set it", fmt::join(changes, ", ")));
  }
  if (options.names_pytorch) {
    out.notes.push_back(
        "Pytorch is `standard`, Strobe's own plain attention, under the source reports' name; torch-naive is PyTorch");
  }
  for (std::string& note : notes_on_idle_flags(options, device)) out.notes.push_back(std::move(note));
  check_heads(options, heads, emb);
  const std::int64_t kv_heads = options.kv_heads.value_or(heads);
  if (heads % kv_heads != 0) {
    fail(ErrorCode::invalid_argument, "--num_kv_heads {}: does not divide {}--num_heads {}; valid: its divisors",
         kv_heads, options.heads ? "" : "the default of ", heads);
  }
  const std::int64_t seqlen_q = options.seqlen_q.value_or(1024);
  const std::int64_t seqlen_k = options.seqlen_k.value_or(seqlen_q);
  check_alignment(options, seqlen_q, seqlen_k);
  const bench::ScoreOptions scores = score_options_of(options, batch, seqlen_q, seqlen_k);
  for (const bool causal : options.causal) {
    out.cases.push_back({.batch = batch,
                         .heads = heads,
                         .kv_heads = kv_heads,
                         .seqlen_q = seqlen_q,
                         .seqlen_k = seqlen_k,
                         .head_dim = emb / heads,
                         .dtype = options.dtype.value_or(DType::fp16),
                         .tf32 = options.tf32,
                         .deterministic = options.deterministic && device == Device::cuda,
                         .causal = causal,
                         .alignment = options.alignment,
                         .window = options.window,
                         .passes = options.passes,
                         .threads = threads_of(options.threads),
                         .device = device,
                         .cache = options.cache,
                         .options = scores,
                         .scaled = !changes.empty()});
  }
  return out;
}

void check_problems(const Cases& cases) {
  for (const bench::AttentionCase& one : cases.cases)
    explain(bench::attention_of(one), Pass::forward, bench::execution_of(one));
}

}  // namespace strobe::cli
