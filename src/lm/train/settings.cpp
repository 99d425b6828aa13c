// Defines the field table of Settings, checks settings, and computes the learning rate.
#include "lm/train/settings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/counted.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe {

template <>
std::span<const Field<lm::Settings>> fields<lm::Settings>() {
  using lm::Settings;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr double kLeastEps = 1e-37;  // a normal fp32 number; with a subnormal eps AdamW could divide by zero
  static const Field<Settings> all[] = {
      integer_field<Settings>({"batch", 1, 100'000'000}, &Settings::batch, "sequences per step; default 8"),
      integer_field<Settings>({"steps", 1, lm::kMostSteps}, &Settings::steps, "total steps; default 1000"),
      integer_field<Settings>({"seed", 0, kMost}, &Settings::seed, "random seed, 0 or more; default 1"),
      number_field<Settings>({"lr", 0, 1e6}, &Settings::rate, "learning rate after the warm-up; default 0.001"),
      number_field<Settings>({"lr_min", 0, 1e6}, &Settings::least_rate,
                             "learning rate of the last step; default a tenth of --lr"),
      integer_field<Settings>({"lr_warmup", 0, lm::kMostSteps}, &Settings::warmup,
                              "warm-up steps; default a tenth of --steps, at most 100"),
      number_field<Settings>({"clip", 0, 1e30}, &Settings::clip, "largest gradient norm, 0: no clipping; default 1"),
      number_field<Settings>({"beta1", 0, 1}, &Settings::beta1, "AdamW; default 0.9"),
      number_field<Settings>({"beta2", 0, 1}, &Settings::beta2, "AdamW; default 0.999"),
      number_field<Settings>({"eps", kLeastEps, 1}, &Settings::eps, "AdamW; default 1e-8"),
      number_field<Settings>({"decay", 0, 1e6}, &Settings::decay, "AdamW's weight decay; default 0.01"),
      word_field<Settings>(
          "precision", "NAME", &Settings::precision, lm::precision_names(), lm::precision_of,
          [](lm::Precision precision) { return lm::name_of(precision); },
          "fp32, tf32 (on a GPU), bf16 or fp16 with loss scaling; parameters stay fp32; default fp32"),
      word_field<Settings>(
          "device", "cpu|cuda", &Settings::device, {"cpu", "cuda"}, lm::device_of,
          [](Device device) { return device == Device::cuda ? "cuda" : "cpu"; },
          "device to train on; default: cuda if there is a GPU"),
      switch_field<Settings>("deterministic", &Settings::deterministic,
                             "bitwise reproducible; default on; off changes nothing on the CPU"),
  };
  return all;
}

}  // namespace strobe

namespace strobe::lm {
namespace {

constexpr IntegerRange kTokensRange{"data_tokens", 0, std::numeric_limits<std::int64_t>::max()},
    kChecksumRange{"data_crc32", 0, std::numeric_limits<std::uint32_t>::max()};

DataFormat format_in(const Json& json) {
  const std::string& word = json.at("data_format").as_string();
  for (const DataFormat format : {DataFormat::text, DataFormat::tokens, DataFormat::tokens32}) {
    if (word == name_of(format)) return format;
  }
  fail(ErrorCode::invalid_argument, "data_format {}: valid: text, tokens, tokens32", printable_value(word));
}

ModelShape shape_in(const Json& json) {
  ModelShape shape;
  for (const Field<ModelShape>& field : fields<ModelShape>()) field.read(shape, json.at(field.key));
  // A checkpoint without the key "arch" has architecture llama.
  if (const Json* architecture = json.find("arch")) shape.architecture = architecture_of(architecture->as_string());
  return shape;
}

void check_schedule(const Settings& settings, Source source) {
  if (settings.warmup > settings.steps) {
    fail(ErrorCode::invalid_argument, "{} {}: more than the {}; valid: 0 to {}", shown("lr_warmup", source),
         settings.warmup, counted(settings.steps, "step"), settings.steps);
  }
  if (settings.least_rate > settings.rate) {
    fail(ErrorCode::invalid_argument, "{} {}: above {}, {}; valid: 0 to {}", shown("lr_min", source),
         settings.least_rate, shown("lr", source), settings.rate, settings.rate);
  }
}

}  // namespace

Device device_of(const std::string& word) {
  if (word == "cpu") return Device::cpu;
  if (word == "cuda") return Device::cuda;
  fail(ErrorCode::invalid_argument, "device {}: valid: cpu, cuda", printable_value(word));
}

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
  Json json = Json::object({{"arch", name_of(shape.architecture)}});
  for (const Field<ModelShape>& field : fields<ModelShape>()) json.set(field.key, field.json(shape));
  for (const Field<Settings>& field : fields<Settings>()) json.set(field.key, field.json(settings));
  return json.set("data_format", name_of(settings.data.format))
      .set("data_tokens", settings.data.tokens)
      .set("data_crc32", static_cast<std::int64_t>(settings.data.checksum));
}

void check(const Settings& settings, Source source) {
  check(settings.shape);
  for (const Field<Settings>& field : fields<Settings>()) field.check(settings, source);
  checked(kTokensRange, settings.data.tokens, source);
  check_schedule(settings, source);
}

Settings settings_from(const Json& json) {
  Settings settings;
  settings.shape = shape_in(json);
  for (const Field<Settings>& field : fields<Settings>()) field.read(settings, json.at(field.key));
  settings.data = {.format = format_in(json),
                   .tokens = json.at("data_tokens").as_integer(),
                   .checksum = static_cast<std::uint32_t>(checked(kChecksumRange, json.at("data_crc32").as_integer()))};
  check(settings, Source::file);
  return settings;
}

}  // namespace strobe::lm
