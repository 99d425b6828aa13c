// Parses the flags of a case and fills in defaults. The defaults are those of the source reports
// (docs/source-report.md): batch 32, sequence 1024, 32 heads, embedding 2048, fp16. On a CPU, batch, heads and
// embedding are smaller.
#include "cli/bench/case_options.h"

#include <algorithm>

#include "app/common_options.h"
#include "app/program.h"
#include "bench/implementation.h"
#include "core/fail.h"
#include "core/printable.h"
#include "device/device_info.h"
#include "device/gpu_facts.h"

namespace strobe::cli {
namespace {

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

}  // namespace

Device parse_device(std::string_view flag, std::string_view value) {
  if (parse_word(flag, value, {"cpu", "cuda"}) == "cpu") return Device::cpu;
  if (only_checks_flags()) return Device::cuda;
  const CurrentGpu gpu = current_gpu();
  if (!gpu.reason.empty()) fail(ErrorCode::unsupported, "{} cuda: {}; valid: cpu", flag, gpu.reason);
  return Device::cuda;
}

void add_configuration_options(OptionTable& table, CaseOptions& options) {
  for (Field<bench::AttentionCase> field : fields<bench::AttentionCase>()) {
    if (field.key == "device" || field.key == "threads") continue;  // a run has one
    if (field.key == "emb_dim") {
      field.parse = [&options, parse = field.parse](auto&, auto flag, auto value) {
        bench::AttentionCase one{.heads = 1};
        parse(one, flag, value);
        options.emb = one.emb_dim();
      };
    }
    if (field.key == "causal") {
      field.parse = [&options](auto&, auto flag, auto value) {
        const std::string word = value.empty() ? "on" : parse_word(flag, value, {"off", "on", "both"});
        options.causal = word == "both" ? std::vector<bool>{false, true} : std::vector<bool>{word == "on"};
      };
    }
    add_field(table, field, options.given);
  }
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

bool has_causal(const CaseOptions& options) {
  return std::find(options.causal.begin(), options.causal.end(), true) != options.causal.end();
}

bool has_window(const bench::AttentionCase& one) { return one.window.left >= 0 || one.window.right >= 0; }

// If only one of the two flags was given, the error names the other's default and suggests values that fit.
void check_heads(const CaseOptions& options, std::int64_t heads, std::int64_t emb) {
  if (emb % heads == 0) return;
  if (!options.emb) {
    fail(ErrorCode::invalid_argument,
         "--num_heads {}: does not divide the default of --emb_dim, {}; give both, such as --emb_dim {}", heads, emb,
         64 * heads);
  }
  const std::int64_t below = std::max(heads, emb / heads * heads), above = (emb / heads + 1) * heads;
  if (!options.given.has("num_heads")) {
    fail(ErrorCode::invalid_argument,
         "--emb_dim {}: not a multiple of the default of --num_heads, {}; nearest valid: {} or {}, or give both", emb,
         heads, below, above);
  }
  fail(ErrorCode::invalid_argument, "--emb_dim {}: not a multiple of --num_heads {}; nearest valid: {} or {}", emb,
       heads, below, above);
}

// Throws before the library does, with an error in terms of the flags.
void check_alignment(const CaseOptions& options, const bench::AttentionCase& one) {
  const bool causal = has_causal(options), window = has_window(one);
  if (one.seqlen_q == one.seqlen_k || one.alignment != Alignment::unset || !(causal || window || one.options.alibi))
    return;
  fail(ErrorCode::invalid_argument,
       "--align: not given, but {} with --seq_len {} and --seq_len_k {} needs it; valid: top_left, bottom_right",
       causal   ? "--causal"
       : window ? "--window"
                : "--alibi",
       one.seqlen_q, one.seqlen_k);
}

// Checks the score options, and repeats the lengths to fill the batch.
void complete_scores(bench::AttentionCase& one) {
  if (one.options.bias_gradient && one.options.bias.empty()) {
    fail(ErrorCode::invalid_argument, "--bias_gradient: needs a bias; valid: with --bias, such as --bias 1hqk");
  }
  std::vector<std::int32_t>& lengths = one.options.lengths;
  if (lengths.empty()) return;
  if (one.seqlen_q != one.seqlen_k) {
    fail(ErrorCode::invalid_argument,
         "--lengths: applies to queries and keys, but --seq_len is {} and --seq_len_k {}; valid: equal values",
         one.seqlen_q, one.seqlen_k);
  }
  for (const std::int32_t length : lengths) {
    if (length > one.seqlen_q)
      fail(ErrorCode::invalid_argument, "--lengths {}: longer than --seq_len {}", length, one.seqlen_q);
  }
  const std::size_t given = lengths.size();
  if (std::ssize(lengths) > one.batch) {
    fail(ErrorCode::invalid_argument, "--lengths: {} lengths, but --batch_size is {}; valid: 1 to {} lengths", given,
         one.batch, one.batch);
  }
  while (std::ssize(lengths) < one.batch) lengths.push_back(lengths[lengths.size() - given]);
}

// Returns notes on flags that were given but have no effect here.
std::vector<std::string> notes_on_idle_flags(const CaseOptions& options, const bench::AttentionCase& one) {
  std::vector<std::string> notes;
  const auto idle = [&](bool is_idle, const char* text) {
    if (is_idle) notes.push_back(fmt::format("{} has no effect", text));
  };
  const bool on_cpu = one.device == Device::cpu;
  idle(one.alignment != Alignment::unset && !has_causal(options) && !has_window(one) && !one.options.alibi,
       "--align without --causal, --window or --alibi");
  idle(one.cache == bench::Cache::hot && on_cpu, "--cache hot on a CPU");
  idle(one.deterministic && on_cpu, "--deterministic on a CPU");
  idle(one.deterministic && !on_cpu && one.passes == bench::Passes::forward, "--deterministic with --pass forward");
  idle(one.options.bias_gradient && one.passes == bench::Passes::forward, "--bias_gradient with --pass forward");
  return notes;
}

// Sets the heads, the head dimension and the batch of a case, whose defaults are smaller on a CPU. Returns the changes
// to the defaults, such as "--batch_size 32 -> 1".
std::vector<std::string> complete_sizes(const CaseOptions& options, bench::AttentionCase& one) {
  const bool has_heads = options.given.has("num_heads"), has_dim = options.given.has("head_dim");
  std::int64_t emb = options.emb.value_or(2048);
  std::vector<std::string> changes;
  if (!options.given.has("batch_size") && one.device == Device::cpu) {
    one.batch = 1;
    changes.emplace_back("--batch_size 32 -> 1");
  }
  if (!has_heads && !options.emb && one.device == Device::cpu) {
    one.heads = 8;
    emb = 512;
    changes.emplace_back("--num_heads 32 -> 8");
    if (!has_dim) changes.emplace_back("--emb_dim 2048 -> 512");
  }
  if (has_dim && options.emb) {
    fail(ErrorCode::invalid_argument, "--head_dim {}: with --emb_dim {}; valid: one of the two", one.head_dim, emb);
  }
  if (!has_dim) {
    check_heads(options, one.heads, emb);
    one.head_dim = emb / one.heads;
  }
  if (!options.given.has("num_kv_heads")) one.kv_heads = one.heads;
  if (one.heads % one.kv_heads != 0) {
    fail(ErrorCode::invalid_argument, "--num_kv_heads {}: does not divide {}--num_heads {}; valid: its divisors",
         one.kv_heads, has_heads ? "" : "the default of ", one.heads);
  }
  if (!options.given.has("seq_len_k")) one.seqlen_k = one.seqlen_q;
  return changes;
}

}  // namespace

Cases cases_of(const CaseOptions& options) {
  Cases out;
  bench::AttentionCase one = options.given.values;
  one.device = options.device.value_or(current_gpu().reason.empty() ? Device::cuda : Device::cpu);
  one.threads = threads_of(options.threads);
  const std::vector<std::string> changes = complete_sizes(options, one);
  one.scaled = !changes.empty();
  if (one.scaled) {
    out.notes.push_back(fmt::format("defaults scaled for a CPU: {}; name a flag to set it", fmt::join(changes, ", ")));
  }
  if (options.names_pytorch) {
    out.notes.push_back(
        "Pytorch is `standard`, Strobe's own plain attention, under the source reports' name; torch-naive is PyTorch");
  }
  for (std::string& note : notes_on_idle_flags(options, one)) out.notes.push_back(std::move(note));
  one.deterministic = one.deterministic && one.device == Device::cuda;
  check_alignment(options, one);
  complete_scores(one);
  for (const bool causal : options.causal) {
    one.causal = causal;
    out.cases.push_back(one);
  }
  return out;
}

void check_problems(const Cases& cases) {
  for (const bench::AttentionCase& one : cases.cases)
    explain(bench::attention_of(one), Pass::forward, bench::execution_of(one));
}

}  // namespace strobe::cli
