// Rows of result files for tests, as text.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace strobe::test {

struct RowText {
  std::string implementation = "flash2";
  int batch = 2, seqlen_q = 128, heads = 4, emb = 64;
  bool causal = false;
  std::string dtype = "fp32";
  std::string status = "ok";
  std::vector<double> forward{0.01, 0.01, 0.01};  // in seconds
  std::string machine = "a machine";
  std::string revision = "0123456789ab";
  int threads = 1;
};

// Returns a row as one line without its newline.
inline std::string row_text(const RowText& row) {
  const std::string config =
      fmt::format(R"j({{"batch_size":{},"seq_len":{},"num_heads":{},"emb_dim":{},"causal":{},"dtype":"{}",)j"
                  R"j("device":"cpu","threads":{}}})j",
                  row.batch, row.seqlen_q, row.heads, row.emb, row.causal, row.dtype, row.threads);
  const std::string environment =
      fmt::format(R"j({{"date":"2026-11-15T08:00:00Z","cpu":{{"model":"{}"}},"strobe":{{"revision":"{}"}}}})j",
                  row.machine, row.revision);
  if (row.status != "ok") {
    return fmt::format(R"j({{"status":"{}","reason":"why","implementation":"{}","config":{},"environment":{}}})j",
                       row.status, row.implementation, config, environment);
  }
  double mean = 0;
  for (const double sample : row.forward) mean += sample / static_cast<double>(row.forward.size());
  return fmt::format(
      R"j({{"forward":{{"time(s)":{:.6g},"FLOPS(TFLOPs/s)":0.1}},"backward":{{"time(s)":null}},)j"
      R"j("peak_memory_usage(MB)":4.5,"memory_before_backward(MB)":1.5,"predicted_memory(MB)":4.4,"status":"ok","implementation":"{}","config":{},)j"
      R"j("statistics":{{"forward":{{"samples(s)":[{}]}},"backward":null}},"environment":{}}})j",
      mean, row.implementation, config, fmt::join(row.forward, ","), environment);
}

}  // namespace strobe::test
