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
#include "lm/checkpoint_folder.h"

namespace strobe::cli {
namespace {

constexpr lm::IntegerRange kSampleRange{"sample_tokens", 0, 100'000'000};
constexpr double kFall = 10;  // from the highest rate to that of the last step
constexpr std::int64_t kMostWarmup = 100;

void add_bits(OptionTable& table, TrainFlags& flags) {
  const auto whole = [&](const char* name, const char* help, const lm::IntegerRange& range, auto& target) {
    table.add(name, "N", help, [&target, range](auto flag, auto value) {
      target = static_cast<typename std::remove_reference_t<decltype(target)>::value_type>(
          parse_integer(flag, value, range.least, range.most));
    });
  };
  const auto number = [&](const char* name, const char* help, const lm::NumberRange& range,
                          std::optional<double>& target) {
    table.add(name, "X", help, number_into(target, range.least, range.below));
  };
  add_shape_options(table, flags.shape);
  whole("batch", "sequences per step; default 8", lm::kBatchRange, flags.batch);
  whole("steps", "total steps; default 1000", lm::kStepsRange, flags.steps);
  table.add(make_seed_option([&flags](std::uint64_t seed) { flags.seed = seed; }));
  number("lr", "learning rate after the warm-up; default 0.001", lm::kRateRange, flags.rate);
  number("lr-min", "learning rate of the last step; default a tenth of --lr", lm::kLeastRateRange, flags.least_rate);
  whole("lr-warmup", "warm-up steps, in which the rate rises; default a tenth of --steps, at most 100",
        lm::kWarmupRange, flags.warmup);
  number("clip", "largest gradient norm, 0: no clipping; default 1", lm::kClipRange, flags.clip);
  number("beta1", "AdamW; default 0.9", lm::kBeta1Range, flags.beta1);
  number("beta2", "AdamW; default 0.999", lm::kBeta2Range, flags.beta2);
  number("eps", "AdamW; default 1e-8", lm::kEpsRange, flags.eps);
  number("decay", "AdamW's decay of parameters; default 0.01", lm::kDecayRange, flags.decay);
  table.add("precision", "NAME",
            "fp32, tf32 (on a GPU), bf16 or fp16 with loss scaling; parameters stay fp32; default fp32",
            word_into(flags.precision, lm::precision_names(), lm::precision_of));
  table.add("device", "cpu|cuda", "where it trains; default: cuda where there is a GPU",
            into(flags.device, parse_device));
  table.add({.name = "deterministic",
             .takes = Takes::optional_value,
             .placeholder = "on|off",
             .help = "the same bits in every run; default on; off changes nothing on the CPU",
             .apply =
                 [&](auto flag, auto value) {
                   flags.deterministic = value.empty() || parse_word(flag, value, {"on", "off"}) == "on";
                 },
             .words = {"on", "off"}});
}

// Refuses a flag that differs from the checkpoint.
template <class T>
void expect_same(const char* flag, const std::optional<T>& given, const T& kept, const char* otherwise = "") {
  if (!given || *given == kept) return;
  fail(ErrorCode::invalid_argument,
       "{} {}: the checkpoint was trained with {}; leave it out, or begin in another folder{}", flag, *given, kept,
       otherwise);
}

// --resume=STEP branches off at a checkpoint; --lr, --lr-min and --clip may change the settings. --resume repeats the
// run bit for bit and refuses changes.
void change_rates(const TrainFlags& flags, lm::Settings& settings, std::vector<std::string>& notes) {
  if (flags.resume_step == lm::kNewest) {
    constexpr const char* kBranch = "; --resume=STEP may change it";
    expect_same("--lr", flags.rate, settings.rate, kBranch);
    expect_same("--lr-min", flags.least_rate, settings.least_rate, kBranch);
    expect_same("--clip", flags.clip, settings.clip, kBranch);
    return;
  }
  const auto change = [&](const char* flag, const std::optional<double>& given, double& value) {
    if (!given || *given == value) return;
    notes.push_back(fmt::format("{} {} instead of {} from here on", flag, *given, value));
    value = *given;
  };
  const std::optional<double> least =
      flags.rate && *flags.rate != settings.rate ? flags.least_rate.value_or(*flags.rate / kFall) : flags.least_rate;
  change("--lr", flags.rate, settings.rate);
  change("--lr-min", least, settings.least_rate);
  change("--clip", flags.clip, settings.clip);
}

void expect_same_data(const std::string& path, const lm::DataIdentity& data, const lm::DataIdentity& kept) {
  if (data == kept) return;
  fail(ErrorCode::invalid_argument,
       "--data {}: holds {} {} tokens (crc32 {:08x}); the checkpoint was trained on {} {} tokens (crc32 {:08x})",
       printable_value(path), data.tokens, lm::name_of(data.format), data.checksum, kept.tokens,
       lm::name_of(kept.format), kept.checksum);
}

// --size says four numbers and the architecture at once, but neither vocabulary nor context.
void expect_same_shape(const ShapeFlags& flags, const lm::ModelShape& kept) {
  if (flags.architecture) {
    expect_same<std::string>("--arch", lm::name_of(*flags.architecture), lm::name_of(kept.architecture));
  }
  expect_same("--vocabulary", flags.vocabulary, kept.vocabulary);
  expect_same("--d-model", flags.d_model, kept.d_model);
  expect_same("--d-ff", flags.d_ff, kept.d_ff);
  expect_same("--layers", flags.layers, kept.layers);
  expect_same("--heads", flags.heads, kept.heads);
  expect_same("--context", flags.context, kept.context);
  if (!flags.size) return;
  lm::ModelShape said = shape_from(flags, kept);
  said.vocabulary = kept.vocabulary;
  said.context = kept.context;
  if (said == kept) return;
  fail(ErrorCode::invalid_argument,
       "--size {}: the checkpoint was trained with {}, d_model {}, d_ff {}, layers {}, heads {}; leave it out, or "
       "begin in another folder",
       *flags.size, lm::name_of(kept.architecture), kept.d_model, kept.d_ff, kept.layers, kept.heads);
}

}  // namespace

TrainFlags::TrainFlags() : resume_step(lm::kNewest) {}

void add_train_options(OptionTable& table, TrainFlags& flags) {
  const auto text = [&](const char* name, const char* placeholder, const char* help, std::string& target) {
    table.add(name, placeholder, help, into(target, parse_text));
  };
  const auto count = [&](const char* name, const char* help, const lm::IntegerRange& range, auto& target) {
    table.add(name, "N", help, integer_into(target, range.least, range.most));
  };
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
       .help = "continue from the newest checkpoint, or from that of STEP, where --lr, --lr-min and --clip may change",
       .apply = [&](auto flag, auto value) {
         flags.resume = true;
         if (!value.empty()) flags.resume_step = parse_integer(flag, value, 0, lm::kMostSteps);
       }});
  count("checkpoint-every", "steps between two checkpoints, 0: only the last; default 500", lm::kCheckpointEveryRange,
        flags.checkpoint_every);
  count("keep", "checkpoints kept: the newest N, and the newest known to be good; 0: all; default 3", lm::kKeepRange,
        flags.keep);
  add_bits(table, flags);
  table.add(make_threads_option("CPU threads; the bits do not depend on it", flags.threads));
  table.add("recompute", "none|attention|block",
            "what the backward makes again, to keep less; the bits do not depend on it; default none",
            word_into(flags.recompute, lm::recompute_names(), lm::recompute_of));
  add_exchange_options(table, flags.exchange);
  table.add(make_switch("verify", "with --ddp: 5 steps on the ranks and on one process, weights compared; no --out",
                        flags.verify));
  count("sample-tokens", "tokens of the text at the end; default 128", kSampleRange, flags.sample_tokens);
  table.add(make_quick_option(flags.quick));
}

Device device_of(const TrainFlags& flags) {
  return flags.device.value_or(current_gpu().reason.empty() ? Device::cuda : Device::cpu);
}

namespace {

// What flags say, with defaults, before anything is checked.
lm::Settings said_by(const TrainFlags& flags, const lm::DataIdentity& data) {
  lm::Settings settings;
  lm::ModelShape base = lm::shape_of(flags.shape.size.value_or("tiny"));
  ShapeFlags rest = flags.shape;
  rest.size.reset();
  if (data.format == lm::DataFormat::text) base.vocabulary = lm::kBytes;
  settings.shape = shape_from(rest, base);
  settings.batch = flags.batch.value_or(settings.batch);
  settings.steps = flags.steps.value_or(settings.steps);
  settings.seed = flags.seed.value_or(settings.seed);
  settings.rate = flags.rate.value_or(settings.rate);
  settings.least_rate = flags.least_rate.value_or(settings.rate / kFall);
  settings.warmup = flags.warmup.value_or(std::min(kMostWarmup, settings.steps / 10));
  settings.beta1 = flags.beta1.value_or(settings.beta1);
  settings.beta2 = flags.beta2.value_or(settings.beta2);
  settings.eps = flags.eps.value_or(settings.eps);
  settings.decay = flags.decay.value_or(settings.decay);
  settings.clip = flags.clip.value_or(settings.clip);
  settings.precision = flags.precision.value_or(settings.precision);
  settings.device = device_of(flags);
  settings.deterministic = flags.deterministic.value_or(settings.deterministic);
  settings.data = data;
  return settings;
}

}  // namespace

Json facts_of(const TrainFlags& flags, const lm::DataIdentity& data) {
  const lm::ParallelOptions exchange = exchange_from(flags.exchange);
  return lm::to_json(said_by(flags, data))
      .set("ddp", exchange.strategy.name)
      .set("bucket bytes", exchange.bucket_bytes);
}

lm::Settings settings_from(const TrainFlags& flags, const lm::DataIdentity& data) {
  const lm::Settings settings = said_by(flags, data);
  lm::check(settings, lm::Source::flag);
  return settings;
}

lm::Settings settings_from(const TrainFlags& flags, const lm::DataIdentity& data, const lm::Settings& kept,
                           std::vector<std::string>& notes) {
  expect_same_shape(flags.shape, kept.shape);
  expect_same("--batch", flags.batch, kept.batch);
  expect_same("--seed", flags.seed, kept.seed);
  expect_same("--lr-warmup", flags.warmup, kept.warmup);
  expect_same("--beta1", flags.beta1, kept.beta1);
  expect_same("--beta2", flags.beta2, kept.beta2);
  expect_same("--eps", flags.eps, kept.eps);
  expect_same("--decay", flags.decay, kept.decay);
  if (flags.precision) {
    expect_same<std::string>("--precision", lm::name_of(*flags.precision), lm::name_of(kept.precision));
  }
  if (flags.deterministic) expect_same("--deterministic", flags.deterministic, kept.deterministic);
  expect_same_data(flags.data, data, kept.data);
  lm::Settings settings = kept;
  change_rates(flags, settings, notes);
  settings.steps = flags.steps.value_or(kept.steps);
  if (settings.steps != kept.steps) {
    notes.push_back(fmt::format("--steps {} instead of {}: learning rates from here on are others than they would be",
                                settings.steps, kept.steps));
  }
  if (settings.warmup > settings.steps) {
    fail(ErrorCode::invalid_argument, "--steps {}: the checkpoint's warm-up has {}; valid: that many or more",
         settings.steps, settings.warmup);
  }
  settings.device = flags.device.value_or(kept.device);
  if (settings.device != kept.device) notes.push_back("another device than before: not bit for bit");
  lm::check(settings, lm::Source::flag);
  return settings;
}

lm::Upkeep upkeep_from(const TrainFlags& flags, lm::Upkeep kept) {
  lm::Upkeep upkeep = std::move(kept);
  upkeep.checkpoint_every = flags.checkpoint_every.value_or(upkeep.checkpoint_every);
  upkeep.keep = flags.keep.value_or(upkeep.keep);
  upkeep.validation_every = flags.validation_every.value_or(upkeep.validation_every);
  upkeep.validation_tokens = flags.validation_tokens.value_or(upkeep.validation_tokens);
  if (!flags.validation.empty()) upkeep.validation = flags.validation == kNoTests ? "" : flags.validation;
  if (upkeep.validation.empty() && (flags.validation_every || flags.validation_tokens)) {
    fail(ErrorCode::invalid_argument, "{} {}: there is nothing to test on; --val-data FILE gives it",
         flags.validation_every ? "--val-every" : "--val-tokens",
         flags.validation_every ? upkeep.validation_every : upkeep.validation_tokens);
  }
  return upkeep;
}

}  // namespace strobe::cli
