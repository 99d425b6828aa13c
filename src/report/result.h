// One row of a result file as plain data, and the reader of such files. Everything in report/ starts from here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"

namespace strobe::report {

// What was measured. `rest` says what else sets the configuration apart from a plain one ("window 128:0, softcap 5").
struct Config {
  std::int64_t batch = 0, seq = 0, seq_k = 0, heads = 0, kv_heads = 0, emb = 0, head_dim = 0, threads = 0;
  bool causal = false;
  std::string dtype, device;
  std::string rest;
  std::vector<std::pair<std::string, std::string>> members;  // keys and values that identify it, sorted by key
  std::string identity;  // equal for rows of the same configuration, however the file orders its keys
};

// Times of one pass, in seconds.
struct Timing {
  double mean = 0, median = 0;
  double low = 0, high = 0;  // interval of the median; both the median where the file has none
  double flop_rate = 0;      // nominal FLOP/s at the mean
  std::vector<double> samples;

  double flops() const { return flop_rate * mean; }
};

struct Result {
  std::string implementation, kernel;
  Config config;
  std::string status, reason;
  std::optional<Timing> forward, backward, step;         // absent: not timed; step: of a language model
  std::optional<double> peak_mb, kept_mb, predicted_mb;  // kept: between a forward and its backward
  std::string machine, date, revision;                   // "" where the file does not say
  std::optional<double> product_rate;                    // ceilings of the machine: FLOP/s of the type, bytes/s copied
  std::optional<double> copy_rate;
};

inline constexpr const char* kStatuses[] = {"ok", "oom", "unsupported", "wrong", "timeout", "crashed"};

// All rows of a file: JSON objects and lists of such, any number one after the other (bench's output, a sweep's lines,
// outputs of several launches appended). Throws Error(invalid_argument), "FILE, line N: what is wrong", and where there
// is no plain file.
std::vector<Result> read_results(const std::string& path);
void read_results(const std::string& path, std::vector<Result>& results);  // appends

// The same of a text; `name` stands for the file in errors.
std::vector<Result> parse_results(std::string_view text, const std::string& name);

// "batch 16, 32 heads x 64, sequence 1024, fp16, causal"
std::string describe(const Config& config);

}  // namespace strobe::report
