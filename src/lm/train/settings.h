// Settings has the options that determine the results of a training run in one process. They come from flags or from a
// checkpoint. `strobe lm train` and Trainer use them.
#pragma once

#include <cstdint>

#include "app/fields.h"
#include "core/json.h"
#include "lm/data/token_file.h"
#include "lm/models/choices.h"
#include "lm/models/shape.h"
#include "strobe/attention.h"

namespace strobe::lm {

inline constexpr std::int64_t kMostSteps = 100'000'000;

// Identifies training data by contents, not by file name.
struct DataIdentity {
  DataFormat format = DataFormat::text;
  std::int64_t tokens = 0;
  std::uint32_t checksum = 0;

  bool operator==(const DataIdentity&) const = default;
};

Device device_of(const std::string& word);  // cpu, cuda; throws Error(invalid_argument) for an unknown name

DataIdentity identity_of(const TokenFile& file);

struct Settings {
  ModelShape shape;
  std::int64_t batch = 8, steps = 1000;
  std::uint64_t seed = 1;
  double rate = 1e-3, least_rate = 1e-4;  // learning rates after the warm-up and at the last step
  std::int64_t warmup = 100;              // steps
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.01;
  double clip = 1;  // largest gradient norm; 0: no clipping
  Precision precision = Precision::fp32;
  Device device = Device::cpu;
  bool deterministic = true;
  DataIdentity data;

  bool operator==(const Settings&) const = default;
};

// Returns the learning rate of a step, counted from 1. It rises linearly from 0 over the warm-up, then follows half a
// cosine to least_rate at the last step.
double learning_rate(const Settings& settings, std::int64_t step);

// Throws Error(invalid_argument) with the field, its value and the valid range if a setting is invalid. `source`
// defines how the text names the field: as a flag or as a key of a file.
void check(const Settings& settings, Source source);

Json to_json(const Settings& settings);
// Reads and checks settings. Throws Error(invalid_argument) as check() does, and for a missing key or a value of
// another type.
Settings settings_from(const Json& json);

}  // namespace strobe::lm

namespace strobe {

// The field table: all settings except shape and data, whose flags differ from their keys.
template <>
std::span<const Field<lm::Settings>> fields<lm::Settings>();

}  // namespace strobe
