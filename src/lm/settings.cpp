#include "lm/settings.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/fail.h"

namespace strobe::lm {

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

Settings settings_from(const Json& json) {
  const auto whole = [&](const char* key, std::int64_t least = 0) {
    const std::int64_t value = json.at(key).as_integer();
    if (value < least) fail(ErrorCode::invalid_argument, "{} {}: valid: {} or more", key, value, least);
    return value;
  };
  const auto number = [&](const char* key) { return json.at(key).as_number(); };
  Settings settings;
  settings.shape = {.d_model = whole("d_model"),
                    .d_ff = whole("d_ff"),
                    .layers = whole("layers"),
                    .heads = whole("heads"),
                    .vocabulary = whole("vocabulary"),
                    .context = whole("context")};
  // Checkpoints from before there was a second one do not say.
  if (const Json* architecture = json.find("arch")) {
    settings.shape.architecture = architecture_of(architecture->as_string());
  }
  check(settings.shape);
  settings.batch = whole("batch", 1);
  settings.steps = whole("steps", 1);
  settings.seed = static_cast<std::uint64_t>(whole("seed"));
  settings.rate = number("lr");
  settings.least_rate = number("lr_min");
  settings.warmup = whole("lr_warmup");
  settings.beta1 = number("beta1");
  settings.beta2 = number("beta2");
  settings.eps = number("eps");
  settings.decay = number("decay");
  settings.clip = number("clip");
  settings.precision = precision_of(json.at("precision").as_string());
  settings.device = json.at("device").as_string() == "cuda" ? Device::cuda : Device::cpu;
  settings.deterministic = json.at("deterministic").as_bool();
  settings.data = {.format = data_format(json.at("data_format").as_string(), ""),
                   .tokens = whole("data_tokens"),
                   .checksum = static_cast<std::uint32_t>(whole("data_crc32"))};
  return settings;
}

}  // namespace strobe::lm
