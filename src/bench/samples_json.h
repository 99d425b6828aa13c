// Timing samples in the JSON schema of result rows.
#pragma once

#include <vector>

#include "core/json.h"

namespace strobe::bench {

// Statistics of the samples (seconds), then the samples. Requires at least one sample.
Json samples_json(const std::vector<double>& samples);

}  // namespace strobe::bench
