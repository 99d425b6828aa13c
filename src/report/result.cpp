// Reads result files. Files are not trusted: every kind and range is checked, and a fault names file and line.
#include "report/result.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/counted.h"
#include "core/fail.h"
#include "core/printable.h"
#include "core/statistics.h"

namespace strobe::report {
namespace {

constexpr std::int64_t kMostSize = std::int64_t{1} << 40;
constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 30;

// Members that say how a row was made, not what it measures.
constexpr std::string_view kNotIdentity[] = {"scaled", "shrink", "unmasked_scores"};
// Members with fields of their own in Config, and those that are always there.
constexpr std::string_view kPlain[] = {"batch_size", "seq_len",      "num_heads", "emb_dim",  "causal",
                                       "dtype",      "device",       "threads",   "head_dim", "seq_len_k",
                                       "layout",     "num_kv_heads", "pass",      "cache",    "unmasked_scores"};

bool contains(const auto& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

[[noreturn]] void refuse(std::string_view key, const Json& value, std::string_view valid) {
  fail(ErrorCode::invalid_argument, "{} is {}; valid: {}", key, printable(value.dump(), 40), valid);
}

const Json& need(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  if (!value) fail(ErrorCode::invalid_argument, "no \"{}\": not a row of `strobe bench` or `strobe sweep`", key);
  return *value;
}

std::int64_t size_of(const Json& config, std::string_view key, std::optional<std::int64_t> otherwise = {}) {
  const Json* value = config.find(key);
  if (!value && otherwise) return *otherwise;
  const Json& given = value ? *value : need(config, key);
  if (!given.is_integer() || given.as_integer() < 0 || given.as_integer() > kMostSize) {
    refuse(fmt::format("config.{}", key), given, "a whole number from 0 to 2^40");
  }
  return given.as_integer();
}

std::string text_of(const Json& object, std::string_view key, std::string_view otherwise = "") {
  const Json* value = object.find(key);
  if (!value || value->is_null()) return std::string(otherwise);
  if (!value->is_string()) refuse(key, *value, "a text");
  return printable(value->as_string(), std::string_view::npos);  // it ends up on terminals
}

// Absent and null are none; anything else must be a number from 0 on.
std::optional<double> number_of(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  if (!value || value->is_null()) return std::nullopt;
  if (!value->is_number() || !(value->as_number() >= 0) || !std::isfinite(value->as_number())) {
    refuse(key, *value, "a number from 0 on, or null");
  }
  return value->as_number();
}

// "window [128,0], alibi": what a plain configuration does not have.
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
  config.seq = size_of(json, "seq_len");
  config.heads = size_of(json, "num_heads");
  config.emb = size_of(json, "emb_dim");
  if (config.heads < 1) refuse("config.num_heads", need(json, "num_heads"), "1 or more");
  config.seq_k = size_of(json, "seq_len_k", config.seq);
  config.kv_heads = size_of(json, "num_kv_heads", config.heads);
  config.head_dim = size_of(json, "head_dim", config.emb / config.heads);
  config.threads = size_of(json, "threads", 0);
  const Json& causal = need(json, "causal");
  if (!causal.is_bool()) refuse("config.causal", causal, "true or false");
  config.causal = causal.as_bool();
  config.dtype = text_of(json, "dtype", "fp16");
  config.device = text_of(json, "device", "cpu");
  config.rest = rest_of(json);
  std::vector<std::string> members;
  for (const auto& [key, value] : json.as_object()) {
    if (!contains(kNotIdentity, key)) members.push_back(key + "=" + value.dump());
  }
  std::sort(members.begin(), members.end());
  config.identity = fmt::format("{}", fmt::join(members, ";"));
  return config;
}

std::vector<double> samples_of(const Json& statistics) {
  std::vector<double> samples;
  const Json* list = statistics.find("samples(s)");
  if (!list || list->is_null()) return samples;
  if (!list->is_array()) refuse("samples(s)", *list, "a list of seconds");
  for (const Json& one : list->as_array()) {
    if (!one.is_number() || !(one.as_number() > 0) || !std::isfinite(one.as_number())) {
      refuse("a value of samples(s)", one, "seconds above 0");
    }
    samples.push_back(one.as_number());
  }
  return samples;
}

std::optional<Timing> timing_of(const Json& row, std::string_view pass) {
  const Json* region = row.find(pass);
  if (!region || region->is_null()) return std::nullopt;
  if (!region->is_object()) refuse(pass, *region, "an object with \"time(s)\"");
  const std::optional<double> seconds = number_of(*region, "time(s)");
  if (!seconds) return std::nullopt;
  if (*seconds <= 0) refuse(fmt::format("{}.time(s)", pass), *region->find("time(s)"), "seconds above 0, or null");
  Timing timing;
  timing.mean = timing.median = timing.low = timing.high = *seconds;
  timing.flop_rate = number_of(*region, "FLOPS(TFLOPs/s)").value_or(0) * 1e12;
  const Json* statistics = row.find("statistics");
  const Json* series = statistics ? statistics->find(pass) : nullptr;
  if (series && series->is_object()) timing.samples = samples_of(*series);
  if (!timing.samples.empty()) {
    const Summary summary = summarize(timing.samples);
    timing.median = summary.median;
    timing.low = summary.low;
    timing.high = summary.high;
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
  if (const Json* cpu = environment.find("cpu")) result.machine = text_of(*cpu, "model");
  const Json* gpus = find_path(environment, {"gpu", "gpus"});
  if (result.config.device == "cuda" && gpus && gpus->is_array() && gpus->size() > 0) {
    result.machine = text_of(gpus->as_array()[0], "name");
  }
  if (const Json* rates = find_path(environment, {"ceilings", "matrix_product(FLOP/s)"})) {
    result.product_rate = number_of(*rates, result.config.dtype);
  }
  if (const Json* ceilings = environment.find("ceilings")) result.copy_rate = number_of(*ceilings, "copy(B/s)");
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
  if (result.status != "ok") return result;  // without one of ok, figures mean nothing
  result.forward = timing_of(row, "forward");
  result.backward = timing_of(row, "backward");
  result.peak_mb = number_of(row, "peak_memory_usage(MB)");
  result.kept_mb = number_of(row, "memory_before_backward(MB)");
  result.predicted_mb = number_of(row, "predicted_memory(MB)");
  if (!result.forward && !result.backward) {
    fail(ErrorCode::invalid_argument, "status is \"ok\", but neither forward nor backward has a time");
  }
  return result;
}

}  // namespace

std::vector<Result> parse_results(std::string_view text, const std::string& name) {
  std::vector<Result> results;
  std::size_t position = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  std::size_t fault = 0;      // byte that an error is told at: where the text is wrong, or where the value begins
  std::size_t list_item = 0;  // from 1 on inside a list
  try {
    while (position < text.size()) {
      const std::size_t begin = position;
      list_item = 0;
      Json value;
      try {
        value = Json::parse_next(text, position);
      } catch (const Error& error) {
        fault = position;
        std::string_view why = error.what();
        if (why.starts_with("json: ")) why.remove_prefix(6);
        fail(ErrorCode::invalid_argument, "not JSON: {}", why);
      }
      fault = begin;
      if (!value.is_array()) {
        results.push_back(result_of(value));
        continue;
      }
      for (const Json& row : value.as_array()) {
        ++list_item;
        results.push_back(result_of(row));
      }
    }
  } catch (const Error& error) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(fault), '\n');
    const std::string item = list_item > 0 ? fmt::format(", item {} of the list", list_item) : "";
    fail(ErrorCode::invalid_argument, "{}, line {}{}: {}", name, line, item, error.what());
  }
  if (results.empty()) fail(ErrorCode::invalid_argument, "{}: no result in it", name);
  return results;
}

namespace {

// Opening a pipe that nobody writes to would wait for ever; one that the shell has opened is fine.
void check_kind(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error || std::filesystem::is_regular_file(status)) return;
  if (path == "/dev/stdin" || path.starts_with("/dev/fd/")) return;
  fail(ErrorCode::invalid_argument, "{}: {}; valid: a result file, or /dev/stdin", path,
       std::filesystem::is_directory(status) ? "is a folder" : "is not a plain file");
}

}  // namespace

std::vector<Result> read_results(const std::string& path) {
  check_kind(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::invalid_argument, "{}: cannot be read: {}", path, std::strerror(errno));
  std::ostringstream text;
  char block[1 << 16];
  std::uintmax_t bytes = 0;
  while (file.read(block, sizeof(block)) || file.gcount() > 0) {
    bytes += static_cast<std::uintmax_t>(file.gcount());
    if (bytes > kMostBytes) fail(ErrorCode::invalid_argument, "{}: more than 1 GB is not a result file", path);
    text.write(block, file.gcount());
  }
  if (file.bad()) fail(ErrorCode::invalid_argument, "{}: cannot be read", path);
  return parse_results(text.view(), path);
}

std::string describe(const Config& config) {
  std::string text = fmt::format("batch {}, {} x {}", config.batch, counted(config.heads, "head"), config.head_dim);
  if (config.kv_heads != config.heads) text += fmt::format(" ({})", counted(config.kv_heads, "KV head"));
  text += config.seq == config.seq_k ? fmt::format(", sequence {}", config.seq)
                                     : fmt::format(", {} queries x {} keys", config.seq, config.seq_k);
  text += ", " + config.dtype;
  if (config.causal) text += ", causal";
  if (!config.rest.empty()) text += ", " + config.rest;
  return text;
}

}  // namespace strobe::report
