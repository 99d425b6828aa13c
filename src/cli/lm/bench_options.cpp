// Parses the flags of `strobe lm bench` and combines them into cells.
#include "cli/lm/bench_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/common_options.h"
#include "app/program.h"
#include "app/terminal.h"
#include "cli/bench/case_options.h"
#include "cli/lm/one_process.h"
#include "cli/lm/ranks.h"
#include "core/fail.h"
#include "device/gpu_facts.h"

namespace strobe::cli {
namespace {

std::vector<std::int64_t> parse_integers(std::string_view flag, std::string_view value, std::int64_t least,
                                         std::int64_t most) {
  return parse_list(flag, value, [&](auto of, auto item) { return parse_integer(of, item, least, most); });
}

std::vector<std::string> attention_words() {
  std::vector<std::string> words = {"auto"};
  for (const Device device : {Device::cpu, Device::cuda}) {
    for (const std::string& name : kernel_names(device)) {
      if (std::find(words.begin(), words.end(), name) == words.end()) words.push_back(name);
    }
  }
  return words;
}

std::string parse_attention(std::string_view flag, std::string_view value) {
  const std::string word = parse_word(flag, value, attention_words());
  return word == "auto" ? "" : word;
}

lm::BenchPass parse_pass(std::string_view flag, std::string_view value) {
  const std::string word = parse_word(flag, value, {"forward", "forward_backward", "step"});
  return word == "forward" ? lm::BenchPass::forward
         : word == "step"  ? lm::BenchPass::step
                           : lm::BenchPass::forward_backward;
}

std::vector<std::string> parse_strategies(std::string_view flag, std::string_view value) {
  if (value == "all") return lm::strategy_names();
  return parse_list(flag, value, [&](auto of, auto name) { return parse_word(of, name, lm::strategy_names()); });
}

// Throws Error(unsupported) unless the device has this attention kernel.
void check_attention(const std::string& kernel, Device device) {
  const std::vector<std::string> names = kernel_names(device);
  if (kernel.empty() || std::find(names.begin(), names.end(), kernel) != names.end()) return;
  fail(ErrorCode::unsupported, "--attention {}: not on device {}; valid: auto, {}", kernel, bench::name_of(device),
       fmt::join(names, ", "));
}

void add_rank_options(OptionTable& table, LmBenchOptions& options) {
  table.begin_group("several ranks");
  table.add("ddp", "all|NAME[,NAME]",
            fmt::format("strategies to compare on the ranks of `strobe launch` or mpirun: {}",
                        fmt::join(lm::strategy_names(), ", ")),
            into(options.strategies, parse_strategies));
  table.add("bucket-mb", "N[,N]", "MB of gradients per call, for strategies with buckets; default 25",
            [&](auto flag, auto value) {
              options.buckets = parse_list(flag, value, parse_bucket);
              options.bucket_text = value;
            });
  table.add(make_engine_option(options.engine));
  table.add({.name = kOneProcessFlag, .apply = [&](auto, auto value) { options.as_one_process = value; }});
  table.add(
      make_file_option("trace", "with --ddp: the last step of each row on all ranks, for Perfetto", options.trace));
}

}  // namespace

LmBenchOptions default_lm_bench_options() {
  LmBenchOptions options;
  options.device = current_gpu().reason.empty() ? Device::cuda : Device::cpu;
  return options;
}

void add_lm_cell_options(OptionTable& table, LmBenchOptions& options) {
  table.begin_group("model");
  table.add("size", "NAME[,NAME]",
            fmt::format("{}; default small, on the CPU tiny; the seven flags below override the size",
                        fmt::join(lm::size_names(), ", ")),
            [&](auto flag, auto value) {
              options.sizes =
                  parse_list(flag, value, [](auto of, auto name) { return parse_word(of, name, lm::size_names()); });
            });
  table.add(make_arch_option(options.shape.architecture, "default: each size's own"));
  table.add("context", "N[,N]", "tokens per sequence; default: the size's own, at most 512",
            [&](auto flag, auto value) { options.contexts = parse_integers(flag, value, 1, lm::kMostOfShape); });
  add_dimension_options(table, options.shape, "the size's own");
  table.add("batch", "N[,N]", "sequences; default 4",
            [&](auto flag, auto value) { options.batches = parse_integers(flag, value, 1, 1 << 20); });
  table.add("precision", "NAME[,NAME]", "fp32, tf32, bf16, fp16; default fp32", [&](auto flag, auto value) {
    options.precisions = parse_list(
        flag, value, [](auto of, auto name) { return lm::precision_of(parse_word(of, name, lm::precision_names())); });
  });
  table.add("attention", "NAME",
            fmt::format("attention kernel: {}; default auto: the library chooses; standard saves "
                        "probabilities",
                        fmt::join(attention_words(), ", ")),
            into(options.attention, parse_attention));
  table.add("recompute", "NAME[,NAME]",
            "activations that the backward recomputes to save memory: none, attention, block; default none",
            [&](auto flag, auto value) {
              options.recomputes = parse_list(flag, value, [](auto of, auto name) {
                return lm::recompute_of(parse_word(of, name, lm::recompute_names()));
              });
            });
  table.add(make_switch("deterministic", "bitwise reproducible; default on", options.deterministic));
  table.add("device", "cpu|cuda", "default: cuda if there is a GPU", into(options.device, parse_device));
  table.add(make_threads_option("CPU threads", options.threads));
}

Option make_warmup_option(LmBenchOptions& options) {
  return {.name = "warmup",
          .placeholder = "N[,N]",
          .help = "untimed steps first; default 5",
          .apply = [&](auto flag, auto value) { options.warmups = parse_integers(flag, value, 0, 1000000); }};
}

Option make_steps_option(LmBenchOptions& options) {
  return {.name = "steps", .placeholder = "N", .help = "timed steps; default 10", .apply = [&](auto flag, auto value) {
            options.steps = static_cast<int>(parse_integer(flag, value, 1, 1000000));
          }};
}

Option make_file_option(const char* name, const char* help, std::string& target) {
  return {.name = name, .placeholder = "FILE", .help = help, .apply = [&target](auto flag, auto value) {
            target = parse_text(flag, value);
          }};
}

OptionTable lm_bench_table(LmBenchOptions& options) {
  OptionTable table;
  add_lm_cell_options(table, options);
  table.begin_group("measurement");
  table.add("pass", "forward|forward_backward|step", "default step", into(options.pass, parse_pass));
  table.add(make_warmup_option(options));
  table.add(make_steps_option(options));
  table.add("clip", "NORM", "largest gradient norm; default 0: no clipping, and no norm except with --ddp",
            number_into(options.clip, 0, 1e30));
  table.add(make_quick_option(options.quick));
  add_rank_options(table, options);
  table.begin_group("output");
  table.add(make_file_option("output", "JSON; default lm_bench_result.json", options.output));
  return table;
}

std::string model_text(const LmBenchCell& cell) { return model_text(cell.size, cell.one.shape); }

void add_model(Json& row, const LmBenchCell& cell) {
  const lm::BenchCase& one = cell.one;
  row.set("model", model_text(cell))
      .set("size", cell.size)
      .set("arch", lm::name_of(one.shape.architecture))
      .set("parameters", lm::parameter_count(one.shape));
  for (const Field<lm::ModelShape>& field : fields<lm::ModelShape>()) row.set(field.key, field.json(one.shape));
  row.set("batch", one.batch).set("precision", lm::name_of(one.precision)).set("recompute", lm::name_of(one.recompute));
}

std::string title_of(const LmBenchCell& cell) {
  const lm::BenchCase& one = cell.one;
  std::string title = fmt::format("{}, context {}, batch {}, {}", model_text(cell), one.shape.context, one.batch,
                                  lm::name_of(one.precision));
  if (one.recompute != lm::Recompute::none) title += fmt::format(", recompute {}", lm::name_of(one.recompute));
  return title;
}

std::optional<std::string> oom_of(const std::string& name, const std::function<void()>& run) {
  std::optional<std::string> oom;
  show_progress(name + " ...");
  try {
    run();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    oom = error.what();
  }
  show_progress("");
  return oom;
}

int complain_that_none_fits(const char* command, const std::string& files) {
  complain(fmt::format("{}: no cell fits the memory; nothing is written to {}", command, files));
  return kRuntimeFailure;
}

std::vector<LmBenchCell> lm_bench_cells(const LmBenchOptions& options) {
  check_attention(options.attention, options.device);
  const int threads = threads_of(options.threads);
  std::vector<LmBenchCell> cells;
  const std::vector<std::string> by_default = {options.device == Device::cuda ? "small" : "tiny"};
  for (const std::string& size : options.sizes.empty() ? by_default : options.sizes) {
    const lm::ModelShape shape = shape_from(options.shape, lm::shape_of(size));
    for (const std::int64_t context : options.contexts.empty() ? std::vector{shape.context} : options.contexts) {
      for (const std::int64_t batch : options.batches) {
        for (const std::int64_t warmup : options.warmups) {
          for (const lm::Precision precision : options.precisions) {
            if (precision == lm::Precision::tf32 && options.device == Device::cpu) {
              fail(ErrorCode::unsupported, "--precision tf32: needs a GPU; valid on the CPU: fp32, bf16, fp16");
            }
            lm::BenchCase one{
                .shape = shape,
                .batch = batch,
                .precision = precision,
                .pass = options.pass,
                .warmup = static_cast<int>(warmup),
                .steps = options.steps,
                .attention = options.attention,
                .clip = options.clip,
                .execution = {.device = options.device, .threads = threads, .deterministic = options.deterministic}};
            one.shape.context = context;
            lm::check(one.shape);
            for (const lm::Recompute recompute : options.recomputes) {
              one.recompute = recompute;
              cells.push_back({size, one});
            }
          }
        }
      }
    }
  }
  return cells;
}

}  // namespace strobe::cli
