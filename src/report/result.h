// Reads result files into Result, the plain data of one row. The rest of report/ builds on this.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"

namespace strobe::report {

// A measured configuration. `rest` describes masks and options ("window [128,0], softcap 5").
struct Config {
  std::int64_t batch = 0, seqlen_q = 0, seqlen_k = 0, heads = 0, kv_heads = 0, emb = 0, head_dim = 0, threads = 0;
  bool causal = false;
  std::string dtype, device;
  std::string rest;
  std::string problem;  // replaces the description of a problem that is not one of attention; "": attention
  std::vector<std::pair<std::string, std::string>> members;  // identifying keys and values, sorted by key
  std::string identity;  // equal for rows of the same configuration with any order of keys
};

// Times of one pass, in seconds.
struct Timing {
  double mean = 0, median = 0;
  double low = 0, high = 0;  // confidence interval of the median; the median itself if the row has no samples
  double flop_rate = 0;      // nominal FLOP/s at the mean
  std::vector<double> samples;

  double flops() const { return flop_rate * mean; }
};

struct Result {
  std::string implementation, kernel;
  Config config;
  std::string status, reason;
  std::optional<Timing> forward, backward, step;          // absent: not timed; step: of a language model
  std::optional<double> peak_mb, saved_mb, predicted_mb;  // saved: for backward
  std::string machine, date, revision;                    // "" if missing
  std::optional<double> matmul_rate;                      // measured matmul rate of the dtype, FLOP/s
  std::optional<double> copy_rate;                        // measured copy rate, bytes/s
  std::optional<double> load;                             // load average when the process began
  std::int64_t cores = 0;                                 // of the machine; 0: unknown
};

inline constexpr const char* kStatuses[] = {"ok", "oom", "unsupported", "wrong", "timeout", "crashed"};

// Reads all rows of a file: a sequence of JSON objects and arrays of objects, such as the output of bench, the lines of
// a sweep, or concatenated outputs of several launches. Rows of lm bench, comm and ladder are converted (other_rows.h);
// a training log is one row with the times of its steps. Calls `take` with each row as it is in the file. Throws
// Error(invalid_argument), "FILE, line N: what is wrong", or if the path is neither a regular file nor a pipe.
std::vector<Result> read_results(const std::string& path);
// Appends to `results`.
void read_results(const std::string& path, std::vector<Result>& results,
                  const std::function<void(const Json& row)>& take = {});

// As read_results(), for text. `name` is the file's name in errors.
std::vector<Result> parse_results(std::string_view text, const std::string& name);

// "batch 16, 32 heads x 64, sequence 1024, fp16, causal"
std::string describe(const Config& config);

}  // namespace strobe::report
