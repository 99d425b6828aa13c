// Implements the reader of result files. Files are untrusted, so the type and range (ranges.h) of every value is
// checked.
#include "report/result.h"

#include <algorithm>

#include "core/counted.h"
#include "core/fail.h"
#include "core/printable.h"
#include "core/statistics.h"
#include "core/units.h"
#include "report/other_rows.h"
#include "report/training_log.h"
#include "results/each_row.h"
#include "results/ranges.h"

namespace strobe::report {
namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;
constexpr std::size_t kMaxTextBytes = 4096;     // bytes of a name or reason
constexpr std::size_t kMaxConfigBytes = 65536;  // bytes of a configuration

// Configuration members that do not affect the measurement.
constexpr std::string_view kNotIdentity[] = {"scaled", "shrink", "unmasked_scores"};
// Members that rest_of() omits: those with separate fields in Config, and those that every row has.
constexpr std::string_view kPlain[] = {
    "batch_size", "seq_len",   "num_heads", "emb_dim",      "causal", "dtype", "device",          "threads",
    "head_dim",   "seq_len_k", "layout",    "num_kv_heads", "pass",   "cache", "unmasked_scores", "problem"};

bool contains(const auto& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

[[noreturn]] void refuse(std::string_view key, const Json& value, std::string_view valid) {
  fail(ErrorCode::invalid_argument, "{} is {}; valid: {}", key, printable(value.dump(), 40), valid);
}

const Json& need(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  if (!value) {
    fail(ErrorCode::invalid_argument,
         "no \"{}\": not a row of `strobe bench`, sweep, lm bench, lm train, comm or ladder", key);
  }
  return *value;
}

std::int64_t size_of(const Json& config, std::string_view key, std::optional<std::int64_t> otherwise = {}) {
  const Json* value = config.find(key);
  if (!value && otherwise) return *otherwise;
  const Json& given = value ? *value : need(config, key);
  if (!given.is_integer() || given.as_integer() < 0 || given.as_integer() > kMaxSize) {
    refuse(fmt::format("config.{}", key), given, "a whole number from 0 to 2^40");
  }
  return given.as_integer();
}

std::string text_of(const Json& object, std::string_view key, std::string_view otherwise = "") {
  const Json* value = object.find(key);
  if (!value || value->is_null()) return std::string(otherwise);
  if (!value->is_string() || value->as_string().size() > kMaxTextBytes) {
    refuse(key, *value, fmt::format("a text of up to {} bytes", kMaxTextBytes));
  }
  // Escapes control characters, because the text may be printed on a terminal.
  return printable(value->as_string(), std::string_view::npos);
}

// Returns the number at `key`; empty if it is absent or null. Throws for any other value that is not a number in the
// range.
std::optional<double> number_of(const Json& object, std::string_view key, const Range& range) {
  const Json* value = object.find(key);
  if (!value || value->is_null()) return std::nullopt;
  return checked_number(key, *value, range);
}

std::optional<double> megabytes_of(const Json& object, std::string_view key) {
  const std::optional<double> bytes = number_of(object, key, kMemoryRange);
  return bytes ? std::optional(*bytes / kMiB) : std::nullopt;
}

// Returns the masks and options that differ from their defaults: "window [128,0], alibi".
std::string rest_of(const Json& config) {
  std::string rest;
  for (const auto& [key, value] : config.as_object()) {
    if (contains(kPlain, key) || contains(kNotIdentity, key) || value.is_null()) continue;
    const std::string text = value.is_string() ? value.as_string() : value.dump();
    if (text == "false" || text == "0" || text == "[-1,-1]" || text == "unsaid" || text == "[]" || text.empty())
      continue;
    rest += (rest.empty() ? "" : ", ") + key + (text == "true" ? "" : " " + text);
  }
  rest = printable(rest, std::string_view::npos);
  return rest;
}

Config config_of(const Json& json) {
  if (!json.is_object()) refuse("config", json, "an object");
  Config config;
  config.batch = size_of(json, "batch_size");
  config.seqlen_q = size_of(json, "seq_len");
  config.heads = size_of(json, "num_heads");
  config.emb = size_of(json, "emb_dim");
  if (config.heads < 1) refuse("config.num_heads", need(json, "num_heads"), "1 or more");
  config.seqlen_k = size_of(json, "seq_len_k", config.seqlen_q);
  config.kv_heads = size_of(json, "num_kv_heads", config.heads);
  config.head_dim = size_of(json, "head_dim", config.emb / config.heads);
  config.threads = size_of(json, "threads", 0);
  const Json& causal = need(json, "causal");
  if (!causal.is_bool()) refuse("config.causal", causal, "true or false");
  config.causal = causal.as_bool();
  config.dtype = text_of(json, "dtype", "fp16");
  config.device = text_of(json, "device", "cpu");
  config.rest = rest_of(json);
  config.problem = text_of(json, "problem");
  for (const auto& [key, value] : json.as_object()) {
    if (!contains(kNotIdentity, key)) config.members.emplace_back(key, value.dump());
  }
  std::sort(config.members.begin(), config.members.end());
  for (const auto& [key, value] : config.members) config.identity += fmt::format("{}={};", key, value);
  if (config.identity.size() > kMaxConfigBytes) {
    refuse("config", json, fmt::format("an object of up to {} bytes", kMaxConfigBytes));
  }
  return config;
}

std::vector<double> samples_of(const Json& statistics) {
  std::vector<double> samples;
  const Json* list = statistics.find("samples_s");
  if (!list || list->is_null()) return samples;
  if (!list->is_array()) refuse("samples_s", *list, "a list of seconds");
  for (const Json& one : list->as_array()) {
    samples.push_back(checked_number("a value of samples_s", one, kSecondsRange));
  }
  return samples;
}

std::optional<Timing> timing_of(const Json& row, std::string_view pass) {
  const Json* region = row.find(pass);
  if (!region || region->is_null()) return std::nullopt;
  if (!region->is_object()) refuse(pass, *region, "an object with \"time(s)\"");
  const Json* time = region->find("time(s)");
  if (!time || time->is_null()) return std::nullopt;
  const double seconds = checked_number(fmt::format("{}.time(s)", pass), *time, kSecondsRange);
  Timing timing;
  timing.mean = timing.median = timing.low = timing.high = seconds;
  timing.flop_rate = number_of(*region, "FLOPS(TFLOPs/s)", kTeraflopsRange).value_or(0) * 1e12;
  const Json* statistics = row.find("statistics");
  const Json* series = statistics ? statistics->find(pass) : nullptr;
  if (series && series->is_object()) timing.samples = samples_of(*series);
  if (!timing.samples.empty()) {
    const Summary summary = summarize(timing.samples);
    timing.median = summary.median;
    timing.low = summary.low;
    timing.high = summary.high;
  } else if (series && series->is_object()) {
    timing.median = number_of(*series, "median_s", kSecondsRange).value_or(seconds);
    timing.low = timing.high = timing.median;
    const Json* interval = series->find("interval_s");
    if (interval && interval->is_array() && interval->size() == 2) {
      timing.low = checked_number("interval_s", interval->as_array()[0], kSecondsRange);
      timing.high = checked_number("interval_s", interval->as_array()[1], kSecondsRange);
    }
  }
  return timing;
}

const Json* find_path(const Json& object, std::initializer_list<std::string_view> path) {
  const Json* value = &object;
  for (const std::string_view key : path) {
    value = value->find(key);
    if (!value) return nullptr;
  }
  return value;
}

void read_environment(const Json& environment, Result& result) {
  result.date = text_of(environment, "date");
  if (const Json* strobe = environment.find("strobe")) result.revision = text_of(*strobe, "revision");
  result.load = number_of(environment, "load", kLoadRange);
  if (const Json* cpu = environment.find("cpu")) {
    result.machine = text_of(*cpu, "model");
    result.cores = size_of(*cpu, "cores", 0);
  }
  const Json* gpus = find_path(environment, {"gpu", "gpus"});
  if (result.config.device == "cuda" && gpus && gpus->is_array() && gpus->size() > 0) {
    result.machine = text_of(gpus->as_array()[0], "name");
  }
  if (const Json* rates = find_path(environment, {"ceilings", "matrix_product_flop_per_s"})) {
    result.matmul_rate = number_of(*rates, result.config.dtype, kFlopRateRange);
  }
  if (const Json* ceilings = environment.find("ceilings"))
    result.copy_rate = number_of(*ceilings, "copy_bytes_per_s", kByteRateRange);
}

Result result_of(const Json& row) {
  if (!row.is_object()) refuse("a row", row, "an object");
  Result result;
  const Json& name = need(row, "implementation");
  result.implementation = text_of(row, "implementation");
  if (result.implementation.empty()) refuse("implementation", name, "a name");
  result.config = config_of(need(row, "config"));
  result.kernel = text_of(row, "kernel");
  result.reason = text_of(row, "reason");
  need(row, "status");
  result.status = text_of(row, "status");
  if (!contains(kStatuses, result.status)) {
    fail(ErrorCode::invalid_argument, "status is \"{}\"; valid: {}", printable(result.status),
         fmt::join(kStatuses, ", "));
  }
  if (const Json* environment = row.find("environment")) read_environment(*environment, result);
  if (result.status != "ok") return result;  // a failed run has no results
  result.forward = timing_of(row, "forward");
  result.backward = timing_of(row, "backward");
  result.step = timing_of(row, "step");
  result.peak_mb = number_of(row, "peak_memory_usage(MB)", kMegabytesRange);
  result.saved_mb = megabytes_of(row, "memory_before_backward_bytes");
  result.predicted_mb = megabytes_of(row, "predicted_memory_bytes");
  if (!result.forward && !result.backward && !result.step) {
    fail(ErrorCode::invalid_argument, "status is \"ok\", but neither forward nor backward has a time");
  }
  return result;
}

void add_result(const Json& row, std::vector<Result>& results) {
  const bool is_other = row.is_object() && !row.find("implementation");
  const std::optional<Json> converted = is_other ? row_as_of_bench(row) : std::nullopt;
  const bool has_no_time = is_other && (row.find("kind") || row.find("rung"));  // counters, tiles
  if (converted || !has_no_time) results.push_back(result_of(converted ? *converted : row));
}

// Returns the log as one row whose samples are the times of its steps.
Result result_of(const TrainingLog& log) {
  Result result;
  result.implementation = "lm train";
  result.status = "ok";
  const double tokens = log.steps.front().tokens.value_or(0);
  result.config.problem = fmt::format("training, {:.0f} tokens per step", tokens);
  result.config.dtype = "any";
  result.config.identity = result.config.problem;
  Timing step;
  for (const TrainingLog::Step& one : log.steps) {
    if (one.seconds) step.samples.push_back(*one.seconds);
  }
  if (step.samples.empty()) fail(ErrorCode::invalid_argument, "{}: no step has \"seconds\"", log.name);
  const Summary summary = summarize(step.samples);
  step.mean = summary.mean;
  step.median = summary.median;
  step.low = summary.low;
  step.high = summary.high;
  result.step = std::move(step);
  return result;
}

}  // namespace

std::vector<Result> parse_results(std::string_view text, const std::string& name) {
  std::vector<Result> results;
  each_row(text, name, [&](const Json& row) { add_result(row, results); });
  return results;
}

void read_results(const std::string& path, std::vector<Result>& results,
                  const std::function<void(const Json& row)>& take) {
  if (is_training_log(path)) {
    results.push_back(result_of(read_training_log(path)));
    return;
  }
  each_row_of_file(path, [&](const Json& row) {
    add_result(row, results);
    if (take) take(row);
  });
}

std::vector<Result> read_results(const std::string& path) {
  std::vector<Result> results;
  read_results(path, results);
  return results;
}

std::string describe(const Config& config) {
  if (!config.problem.empty()) return config.problem;
  std::string text = fmt::format("batch {}, {} x {}", config.batch, counted(config.heads, "head"), config.head_dim);
  if (config.kv_heads != config.heads) text += fmt::format(" ({})", counted(config.kv_heads, "KV head"));
  text += config.seqlen_q == config.seqlen_k ? fmt::format(", sequence {}", config.seqlen_q)
                                             : fmt::format(", {} queries x {} keys", config.seqlen_q, config.seqlen_k);
  text += ", " + config.dtype;
  if (config.causal) text += ", causal";
  if (!config.rest.empty()) text += ", " + config.rest;
  return text;
}

}  // namespace strobe::report
