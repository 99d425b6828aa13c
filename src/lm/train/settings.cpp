#include "lm/train/settings.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/counted.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::lm {

namespace {

DataFormat format_in(const Json& json) {
  const std::string& word = json.at("data_format").as_string();
  for (const DataFormat format : {DataFormat::text, DataFormat::tokens, DataFormat::tokens32}) {
    if (word == name_of(format)) return format;
  }
  fail(ErrorCode::invalid_argument, "data_format {}: valid: text, tokens, tokens32", printable_value(word));
}

Device device_in(const Json& json) {
  const std::string& word = json.at("device").as_string();
  if (word == "cpu") return Device::cpu;
  if (word == "cuda") return Device::cuda;
  fail(ErrorCode::invalid_argument, "device {}: valid: cpu, cuda", printable_value(word));
}

ModelShape shape_in(const Json& json) {
  const auto whole = [&](const char* key) { return json.at(key).as_integer(); };
  ModelShape shape{.d_model = whole("d_model"),
                   .d_ff = whole("d_ff"),
                   .layers = whole("layers"),
                   .heads = whole("heads"),
                   .vocabulary = whole("vocabulary"),
                   .context = whole("context")};
  // A checkpoint without the key has architecture llama.
  if (const Json* architecture = json.find("arch")) shape.architecture = architecture_of(architecture->as_string());
  return shape;
}

void check_schedule(const Settings& settings, Source source) {
  if (settings.warmup > settings.steps) {
    fail(ErrorCode::invalid_argument, "{} {}: more than the {}; valid: 0 to {}", shown(kWarmupRange.field, source),
         settings.warmup, counted(settings.steps, "step"), settings.steps);
  }
  if (settings.least_rate > settings.rate) {
    fail(ErrorCode::invalid_argument, "{} {}: above {}, {}; valid: 0 to {}", shown(kLeastRateRange.field, source),
         settings.least_rate, shown(kRateRange.field, source), settings.rate, settings.rate);
  }
}

}  // namespace

DataIdentity identity_of(const TokenFile& file) { return {file.format(), file.count(), file.checksum()}; }

double learning_rate(const Settings& settings, std::int64_t step) {
  const auto at = static_cast<double>(step), warmup = static_cast<double>(settings.warmup);
  if (step < settings.warmup) return settings.rate * at / warmup;
  const double falling = std::max(1.0, static_cast<double>(settings.steps) - warmup);
  const double share = std::min(1.0, (at - warmup) / falling);
  return settings.least_rate + (settings.rate - settings.least_rate) * (1 + std::cos(std::numbers::pi * share)) / 2;
}

Json to_json(const Settings& settings) {
  const ModelShape& shape = settings.shape;
  return Json::object({{"arch", name_of(shape.architecture)},
                       {"d_model", shape.d_model},
                       {"d_ff", shape.d_ff},
                       {"layers", shape.layers},
                       {"heads", shape.heads},
                       {"vocabulary", shape.vocabulary},
                       {"context", shape.context},
                       {"batch", settings.batch},
                       {"steps", settings.steps},
                       {"seed", static_cast<std::int64_t>(settings.seed)},
                       {"lr", settings.rate},
                       {"lr_min", settings.least_rate},
                       {"lr_warmup", settings.warmup},
                       {"beta1", settings.beta1},
                       {"beta2", settings.beta2},
                       {"eps", settings.eps},
                       {"decay", settings.decay},
                       {"clip", settings.clip},
                       {"precision", name_of(settings.precision)},
                       {"device", settings.device == Device::cuda ? "cuda" : "cpu"},
                       {"deterministic", settings.deterministic},
                       {"data_format", name_of(settings.data.format)},
                       {"data_tokens", settings.data.tokens},
                       {"data_crc32", static_cast<std::int64_t>(settings.data.checksum)}});
}

void check(const Settings& settings, Source source) {
  check(settings.shape);
  checked(kBatchRange, settings.batch, source);
  checked(kStepsRange, settings.steps, source);
  checked(kSeedRange, static_cast<std::int64_t>(settings.seed), source);
  checked(kRateRange, settings.rate, source);
  checked(kLeastRateRange, settings.least_rate, source);
  checked(kWarmupRange, settings.warmup, source);
  checked(kBeta1Range, settings.beta1, source);
  checked(kBeta2Range, settings.beta2, source);
  checked(kEpsRange, settings.eps, source);
  checked(kDecayRange, settings.decay, source);
  checked(kClipRange, settings.clip, source);
  checked(kTokensRange, settings.data.tokens, source);
  check_schedule(settings, source);
}

Settings settings_from(const Json& json) {
  const auto whole = [&](const char* key) { return json.at(key).as_integer(); };
  const auto number = [&](const char* key) { return json.at(key).as_number(); };
  Settings settings;
  settings.shape = shape_in(json);
  settings.batch = whole("batch");
  settings.steps = whole("steps");
  settings.seed = static_cast<std::uint64_t>(checked(kSeedRange, whole("seed")));
  settings.rate = number("lr");
  settings.least_rate = number("lr_min");
  settings.warmup = whole("lr_warmup");
  settings.beta1 = number("beta1");
  settings.beta2 = number("beta2");
  settings.eps = number("eps");
  settings.decay = number("decay");
  settings.clip = number("clip");
  settings.precision = precision_of(json.at("precision").as_string());
  settings.device = device_in(json);
  settings.deterministic = json.at("deterministic").as_bool();
  settings.data = {.format = format_in(json),
                   .tokens = whole("data_tokens"),
                   .checksum = static_cast<std::uint32_t>(checked(kChecksumRange, whole("data_crc32")))};
  check(settings, Source::file);
  return settings;
}

}  // namespace strobe::lm
