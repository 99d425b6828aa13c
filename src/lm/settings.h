// All that decides the bits of a training run, as flags say it and as its checkpoints keep it.
#pragma once

#include <cstdint>

#include "core/json.h"
#include "lm/precision.h"
#include "lm/shape.h"
#include "lm/token_file.h"
#include "strobe/attention.h"

namespace strobe::lm {

// Which data: not where it lies, but what it holds.
struct DataIdentity {
  DataFormat format = DataFormat::text;
  std::int64_t tokens = 0;
  std::uint32_t checksum = 0;

  bool operator==(const DataIdentity&) const = default;
};

DataIdentity identity_of(const TokenFile& file);

struct Settings {
  ModelShape shape;
  std::int64_t batch = 8, steps = 1000;
  std::uint64_t seed = 1;
  double rate = 1e-3, least_rate = 1e-4;  // the highest, after the warm-up, and the last
  std::int64_t warmup = 100;              // steps
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.01;
  double clip = 1;  // the largest norm of the gradient; 0: any
  Precision precision = Precision::fp32;
  Device device = Device::cpu;
  bool deterministic = true;
  DataIdentity data;

  bool operator==(const Settings&) const = default;
};

// Rises from 0 in a line over the warm-up, then falls to least_rate at the last step as half a cosine. step: from 1.
double learning_rate(const Settings& settings, std::int64_t step);

Json to_json(const Settings& settings);
// Throws Error(invalid_argument) where a key is missing, of another kind or out of its range.
Settings settings_from(const Json& json);

}  // namespace strobe::lm
