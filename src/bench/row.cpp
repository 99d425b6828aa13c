// Writes rows as JSON.
#include "bench/row.h"

#include "bench/samples_json.h"

namespace strobe::bench {
namespace {

constexpr double kMegabyte = 1 << 20;

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json megabytes_json(const std::optional<std::int64_t>& bytes) {
  return bytes ? Json(static_cast<double>(*bytes) / kMegabyte) : Json();
}

double region_flops(const Case& one, Region region) {
  switch (region) {
    case Region::forward: return forward_flops(one);
    case Region::backward: return backward_flops(one);
    case Region::both: return forward_flops(one) + backward_flops(one);
  }
  return 0;
}

Json region_json(const Row& row, Region region) {
  const std::optional<double> rate = flop_rate(row, region);
  return Json::object(
      {{"time(s)", number(mean_seconds(row, region))}, {"FLOPS(TFLOPs/s)", rate ? Json(*rate * 1e-12) : Json()}});
}

Json series_json(const Series& series) {
  if (series.samples.empty()) return nullptr;
  Json json = samples_json(series.samples);
  json.set("stopped_by", name_of(series.stop));
  return json;
}

Json gate_json(const Row& row) {
  if (!row.gate) return "off";
  Json errors = Json::object();
  for (const Comparison& one : row.gate->comparisons) {
    errors.set(one.tensor, Json::object({{"error", one.error}, {"limit", one.limit}, {"values", one.values}}));
  }
  return Json::object({{"against", "float64"}, {"rows", row.gate_rows}, {"keys", row.gate_keys}, {"tensors", errors}});
}

}  // namespace

std::optional<double> mean_seconds(const Row& row, Region region) {
  if (region == Region::both) {
    if (row.forward.samples.empty() || row.backward.samples.empty()) return std::nullopt;
    return summarize(row.forward.samples).mean + summarize(row.backward.samples).mean;
  }
  const Series& series = row.series(region);
  if (series.samples.empty()) return std::nullopt;
  return summarize(series.samples).mean;
}

std::optional<double> flop_rate(const Row& row, Region region) {
  const std::optional<double> seconds = mean_seconds(row, region);
  if (!seconds || *seconds <= 0) return std::nullopt;
  return region_flops(row.one, region) / *seconds;
}

Json row_json(const Row& row, const RunRecord& record) {
  Json json = Json::object();
  for (const Region region : kRegions) json.set(name_of(region), region_json(row, region));
  json.set("peak_memory_usage(MB)", megabytes_json(row.peak_bytes));
  json.set("memory_before_backward(MB)", megabytes_json(row.saved_bytes));
  json.set("driver_memory(MB)", megabytes_json(row.driver_bytes));
  json.set("predicted_memory(MB)", megabytes_json(row.predicted_bytes));
  json.set("status", name_of(row.status));
  if (!row.reason.empty()) json.set("reason", row.reason);
  if (row.asked) json.set("asked", *row.asked);
  if (row.free) json.set("free", *row.free);
  json.set("implementation", row.implementation);
  json.set("kernel", row.kernel);
  json.set("configuration", row.configuration);
  json.set("config", config_json(row.one));
  Json statistics = Json::object();
  for (const Region region : kRegions) statistics.set(name_of(region), series_json(row.series(region)));
  json.set("statistics", statistics);
  json.set("check", row.status == Status::ok ? gate_json(row) : Json());
  json.set("environment", record.environment);
  json.set("command", record.command);
  return json;
}

}  // namespace strobe::bench
