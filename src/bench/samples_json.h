// Times as rows of results hold them.
#pragma once

#include <vector>

#include "core/json.h"

namespace strobe::bench {

// Statistics of samples in seconds, then the samples themselves; at least one.
Json samples_json(const std::vector<double>& samples);

}  // namespace strobe::bench
