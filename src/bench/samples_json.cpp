// Statistics and samples as JSON.
#include "bench/samples_json.h"

#include "core/statistics.h"

namespace strobe::bench {

Json samples_json(const std::vector<double>& samples) {
  const Summary summary = summarize(samples);
  Json values = Json::array();
  for (const double sample : samples) values.push_back(sample);
  return Json::object({{"n", summary.n},
                       {"mean(s)", summary.mean},
                       {"median(s)", summary.median},
                       {"min(s)", summary.min},
                       {"max(s)", summary.max},
                       {"stddev(s)", summary.stddev},
                       {"interval(s)", Json::array({summary.low, summary.high})},
                       {"confidence", summary.confidence},
                       {"relative_half_width", summary.relative_half_width()},
                       {"spread", summary.spread},
                       {"samples(s)", values}});
}

}  // namespace strobe::bench
