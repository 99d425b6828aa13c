// Parses the flags of `strobe lm train` and compares them with the settings of a checkpoint.
#include "cli/lm/train_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/common_options.h"
#include "cli/bench/case_options.h"
#include "core/counted.h"
#include "core/fail.h"
#include "core/printable.h"
#include "device/gpu_facts.h"
#include "lm/train/checkpoint_folder.h"

namespace strobe::cli {
namespace {

constexpr IntegerRange kSampleRange{"sample_tokens", 0, 100'000'000};
constexpr double kDefaultDecay = 10;  // default of --lr / --lr-min
constexpr std::int64_t kMostWarmup = 100;

void add_settings(OptionTable& table, TrainFlags& flags) {
  for (const Field<lm::Settings>& field : fields<lm::Settings>()) {
    if (field.key == "device") {  // parse_device() also checks that the device exists
      table.add("device", field.placeholder, field.help, into(flags.device, parse_device));
    } else {
      add_field(table, field, flags.settings);
    }
  }
}

// Throws if a flag differs from the checkpoint.
void expect_same(std::string_view key, const std::string& given, const std::string& kept, const char* otherwise = "") {
  if (given == kept) return;
  fail(ErrorCode::invalid_argument,
       "{} {}: the checkpoint was trained with {}; leave it out, or start in another folder{}",
       shown(key, Source::flag), given, kept, otherwise);
}

bool is_rate(std::string_view key) { return key == "lr" || key == "lr_min" || key == "clip"; }

// With plain --resume only --steps may differ from the checkpoint. With --resume=STEP --lr, --lr-min and --clip may
// differ too; change_rates() applies them.
void expect_same_settings(const TrainFlags& flags, const lm::Settings& kept) {
  for (const Field<lm::Settings>& field : fields<lm::Settings>()) {
    if (!flags.settings.has(field.key) || field.key == "steps") continue;
    if (is_rate(field.key) && flags.resume_step != lm::kNewest) continue;
    expect_same(field.key, field.text(flags.settings.values), field.text(kept),
                is_rate(field.key) ? "; --resume=STEP may change it" : "");
  }
}

// A new --lr without --lr-min also changes the rate of the last step.
void change_rates(const TrainFlags& flags, lm::Settings& settings, std::vector<std::string>& notes) {
  lm::Settings wanted = settings;
  flags.settings.apply_to(wanted);
  if (wanted.rate != settings.rate && !flags.settings.has("lr_min")) wanted.least_rate = wanted.rate / kDefaultDecay;
  for (const Field<lm::Settings>& field : fields<lm::Settings>()) {
    if (!is_rate(field.key) || field.text(wanted) == field.text(settings)) continue;
    notes.push_back(fmt::format("{} {} instead of {} for the remaining steps", shown(field.key, Source::flag),
                                field.text(wanted), field.text(settings)));
    field.copy(settings, wanted);
  }
}

void expect_same_data(const std::string& path, const lm::DataIdentity& data, const lm::DataIdentity& kept) {
  if (data == kept) return;
  fail(ErrorCode::invalid_argument,
       "--data {}: holds {} tokens (format {}, crc32 {:08x}); the checkpoint was trained on {} (format {}, crc32 "
       "{:08x})",
       printable_value(path), data.tokens, lm::name_of(data.format), data.checksum, kept.tokens,
       lm::name_of(kept.format), kept.checksum);
}

// The vocabulary and context of --size are only defaults, so they are not compared.
void expect_same_shape(const ShapeFlags& flags, const lm::ModelShape& kept) {
  if (flags.architecture) expect_same("arch", lm::name_of(*flags.architecture), lm::name_of(kept.architecture));
  for (const Field<lm::ModelShape>& field : fields<lm::ModelShape>()) {
    if (flags.numbers.has(field.key)) expect_same(field.key, field.text(flags.numbers.values), field.text(kept));
  }
  if (!flags.size) return;
  lm::ModelShape wanted = shape_from(flags, kept);
  wanted.vocabulary = kept.vocabulary;
  wanted.context = kept.context;
  if (wanted == kept) return;
  fail(ErrorCode::invalid_argument,
       "--size {}: the checkpoint was trained with {}, d_model {}, d_ff {}, layers {}, heads {}; leave it out, or "
       "start in another folder",
       *flags.size, lm::name_of(kept.architecture), kept.d_model, kept.d_ff, kept.layers, kept.heads);
}

}  // namespace

TrainFlags::TrainFlags() : resume_step(lm::kNewest) {}

void add_train_options(OptionTable& table, TrainFlags& flags) {
  const auto text = [&](const char* name, const char* placeholder, const char* help, std::string& target) {
    table.add(name, placeholder, help, into(target, parse_text));
  };
  const auto count = [&](const char* name, const char* help, const IntegerRange& range, auto& target) {
    table.add(name, "N", help, integer_into(target, range.least, range.most));
  };
  table.begin_group("data and checkpoints");
  text("data", "FILE", "training data; required", flags.data);
  text("out", "DIR", "folder for checkpoints and steps.jsonl; required; new or empty unless --resume", flags.out);
  table.add("data-format", "auto|text|tokens|tokens32",
            "text: bytes; tokens: uint16; tokens32: uint32; auto: tokens for .bin and .tokens, else text",
            word_into(flags.data_format, {"auto", "text", "tokens", "tokens32"}));
  text("val-data", "FILE", "validation data of the same format, for every checkpoint; none: no validation",
       flags.validation);
  count("val-every", "steps between two validations; default 0: with every checkpoint", lm::kValidationEveryRange,
        flags.validation_every);
  count("val-tokens", "tokens per validation, spread through the file; 0: the whole file; default 131072",
        lm::kValidationTokensRange, flags.validation_tokens);
  table.add(
      {.name = "resume",
       .takes = Takes::optional_value,
       .placeholder = "STEP",
       .help =
           "continue from the newest checkpoint, or from the one at STEP, where --lr, --lr-min and --clip may change",
       .apply = [&](auto flag, auto value) {
         flags.resume = true;
         if (!value.empty()) flags.resume_step = parse_integer(flag, value, 0, lm::kMostSteps);
       }});
  count("checkpoint-every", "steps between two checkpoints, 0: only the last; default 500", lm::kCheckpointEveryRange,
        flags.checkpoint_every);
  count("keep", "checkpoints to keep: the newest N, and the newest known to be good; 0: all; default 3", lm::kKeepRange,
        flags.keep);
  table.begin_group("model");
  add_shape_options(table, flags.shape);
  table.begin_group("training");
  add_settings(table, flags);
  table.add(make_threads_option("CPU threads; any number gives the same bits", flags.threads));
  table.add("recompute", "none|attention|block",
            "activations that the backward recomputes to save memory; the same bits; default none",
            word_into(flags.recompute, lm::recompute_names(), lm::recompute_of));
  table.begin_group("several ranks");
  add_exchange_options(table, flags.exchange);
  table.add(make_switch("verify", "with --ddp: 5 steps on the ranks and on one process, weights compared; no --out",
                        flags.verify));
  table.begin_group("output");
  count("sample-tokens", "tokens of the sample printed at the end; default 128", kSampleRange, flags.sample_tokens);
  table.begin_group("training");
  table.add(make_quick_option(flags.quick));
}

Device device_of(const TrainFlags& flags) {
  return flags.device.value_or(current_gpu().reason.empty() ? Device::cuda : Device::cpu);
}

namespace {

// Returns the settings that the flags and defaults give, before lm::check().
lm::Settings unchecked_settings(const TrainFlags& flags, const lm::DataIdentity& data) {
  lm::Settings settings;
  lm::ModelShape base = lm::shape_of(flags.shape.size.value_or("tiny"));
  ShapeFlags rest = flags.shape;
  rest.size.reset();
  if (data.format == lm::DataFormat::text) base.vocabulary = lm::kBytes;
  settings.shape = shape_from(rest, base);
  flags.settings.apply_to(settings);
  if (!flags.settings.has("lr_min")) settings.least_rate = settings.rate / kDefaultDecay;
  if (!flags.settings.has("lr_warmup")) settings.warmup = std::min(kMostWarmup, settings.steps / 10);
  settings.device = device_of(flags);
  settings.data = data;
  return settings;
}

}  // namespace

Json facts_of(const TrainFlags& flags, const lm::DataIdentity& data) {
  const lm::ParallelOptions exchange = exchange_from(flags.exchange);
  return lm::to_json(unchecked_settings(flags, data))
      .set("ddp", exchange.strategy.name)
      .set("bucket bytes", exchange.bucket_bytes);
}

lm::Settings settings_from(const TrainFlags& flags, const lm::DataIdentity& data) {
  const lm::Settings settings = unchecked_settings(flags, data);
  lm::check(settings, Source::flag);
  return settings;
}

lm::Settings settings_from(const TrainFlags& flags, const lm::DataIdentity& data, const lm::Settings& kept,
                           std::vector<std::string>& notes) {
  expect_same_shape(flags.shape, kept.shape);
  expect_same_settings(flags, kept);
  expect_same_data(flags.data, data, kept.data);
  lm::Settings settings = kept;
  change_rates(flags, settings, notes);
  if (flags.settings.has("steps")) settings.steps = flags.settings.values.steps;
  if (settings.steps != kept.steps) {
    notes.push_back(fmt::format("--steps {} instead of {}: this changes the learning rates of the remaining steps",
                                settings.steps, kept.steps));
  }
  if (settings.warmup > settings.steps) {
    fail(ErrorCode::invalid_argument, "--steps {}: the checkpoint's warm-up has {} steps; valid: that many or more",
         settings.steps, settings.warmup);
  }
  settings.device = flags.device.value_or(kept.device);
  if (settings.device != kept.device) notes.push_back("another device than before: results are not bitwise equal");
  lm::check(settings, Source::flag);
  return settings;
}

lm::RunOptions run_options_from(const TrainFlags& flags, lm::RunOptions kept) {
  lm::RunOptions run_options = std::move(kept);
  run_options.checkpoint_every = flags.checkpoint_every.value_or(run_options.checkpoint_every);
  run_options.keep = flags.keep.value_or(run_options.keep);
  run_options.validation_every = flags.validation_every.value_or(run_options.validation_every);
  run_options.validation_tokens = flags.validation_tokens.value_or(run_options.validation_tokens);
  if (!flags.validation.empty()) run_options.validation = flags.validation == kNoValidation ? "" : flags.validation;
  if (run_options.validation.empty() && (flags.validation_every || flags.validation_tokens)) {
    fail(ErrorCode::invalid_argument, "{} {}: there is no validation data; give --val-data FILE",
         flags.validation_every ? "--val-every" : "--val-tokens",
         flags.validation_every ? run_options.validation_every : run_options.validation_tokens);
  }
  return run_options;
}

}  // namespace strobe::cli
