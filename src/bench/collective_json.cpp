// Writes one row of `strobe comm` as JSON.
#include <algorithm>
#include <numeric>

#include "bench/collective.h"
#include "bench/samples_json.h"
#include "comm/plain_mpi.h"
#include "core/statistics.h"

namespace strobe::bench {
namespace {

Json list(const std::vector<double>& values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(value);
  return json;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Ratio per pair of adjacent samples, ours over theirs: a disturbance of the machine affects both.
Json ratio(const std::vector<double>& ours, const std::vector<double>& theirs) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / theirs[i]);
  const Summary summary = summarize(ratios);
  return Json::object({{"median", summary.median},
                       {"interval", Json::array({summary.low, summary.high})},
                       {"confidence", summary.confidence},
                       {"n", summary.n}});
}

}  // namespace

Json collective_json(const CollectiveResult& result, const comm::Communicator& communicator) {
  const CollectiveCase& one = result.one;
  Json row =
      Json::object({{"kind", "collective"},
                    {"operation", comm::name_of(one.kind)},
                    {"engine", comm::name_of(communicator.engine())},
                    {"ranks", communicator.size()},
                    {"bytes", one.bytes},
                    {"dtype", "fp32"},
                    {"memory", one.memory == comm::Memory::gpu ? "gpu" : "host"},
                    {"library", communicator.engine() == comm::EngineKind::mpi ? comm::mpi_version()
                                                                               : comm::name_of(communicator.engine())},
                    {"link", communicator.world().local_size == communicator.size() ? "one host" : "several hosts"},
                    {"status", result.status}});
  if (!result.reason.empty()) row.set("reason", result.reason);
  row.set("check", Json::object({{"values", result.checked}, {"wrong", result.wrong}}));
  if (result.seconds.empty()) return row;
  const std::vector<double> times = slowest(result.seconds);
  std::vector<double> means;
  for (const std::vector<double>& rank : result.seconds) means.push_back(mean(rank));
  const double rate = static_cast<double>(one.bytes) / summarize(times).median;
  row.set("time(s)", mean(times));
  row.set("algorithm_bandwidth(GB/s)", rate * 1e-9);
  row.set("bus_bandwidth(GB/s)", rate * 1e-9 * comm::bus_factor(one.kind, communicator.size()));
  row.set("slowest_rank", static_cast<int>(std::max_element(means.begin(), means.end()) - means.begin()));
  row.set("rank_means(s)", list(means));
  row.set("statistics", samples_json(times).set("stopped_by", name_of(result.stop)));
  if (!result.plain.empty()) {
    const std::vector<double> plain = slowest(result.plain);
    row.set("plain_mpi", samples_json(plain));
    row.set("time_over_plain_mpi", ratio(times, plain));
  }
  return row;
}

}  // namespace strobe::bench
