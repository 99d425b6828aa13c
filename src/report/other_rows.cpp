// Implements the conversion of rows. The member "problem" of config replaces the text that describes a problem of
// attention.
#include "report/other_rows.h"

#include <fmt/format.h>

#include <string>

#include "core/counted.h"
#include "core/fail.h"
#include "core/short_number.h"
#include "core/units.h"

namespace strobe::report {
namespace {

const Json& required(const Json& row, const char* key) {
  const Json* value = row.find(key);
  if (!value) fail(ErrorCode::invalid_argument, "no \"{}\"", key);
  return *value;
}

std::string required_text(const Json& row, const char* key) {
  const Json& value = required(row, key);
  return value.is_string() ? value.as_string() : value.dump();
}

bool has_text(const Json& row, const char* key, std::string_view text) {
  const Json* value = row.find(key);
  return value && value->is_string() && value->as_string() == text;
}

// Adds `statistics` as the times of `pass`. `flops` is 0 if the pass has no nominal count.
void add_times(Json& out, const char* pass, const Json& statistics, double flops) {
  const Json& mean = required(statistics, "mean_s");
  Json times = Json::object({{"time(s)", mean}});
  if (flops > 0 && mean.is_number() && mean.as_number() > 0) {
    times.set("FLOPS(TFLOPs/s)", 1e-12 * flops / mean.as_number());
  }
  Json all = out.find("statistics") ? out.at("statistics") : Json::object({});
  out.set(pass, std::move(times)).set("statistics", all.set(pass, statistics));
}

Json new_row(const Json& row, const std::string& implementation, Json config) {
  const Json* reason = row.find("reason") ? row.find("reason") : row.find("error");
  std::string status = required_text(row, "status");
  if (status == "refused") status = "unsupported";
  if (status == "failed") status = "crashed";
  Json out = Json::object({{"implementation", implementation}, {"config", std::move(config)}, {"status", status}});
  if (reason) out.set("reason", *reason);
  if (const Json* environment = row.find("environment")) out.set("environment", *environment);
  return out;
}

Json step_row(const Json& row) {
  const bool is_parallel = row.find("strategy") != nullptr;
  Json config = Json::object({{"batch_size", required(row, "batch")},
                              {"seq_len", required(row, "context")},
                              {"num_heads", required(row, "heads")},
                              {"emb_dim", required(row, "d_model")},
                              {"causal", true},
                              {"dtype", required(row, "precision")},
                              {"device", required(row, "device")}});
  std::string problem =
      fmt::format("{}, context {}, batch {}, {}", required_text(row, "model"), required_text(row, "context"),
                  required_text(row, "batch"), required_text(row, "precision"));
  for (const char* key : {"recompute", "pass"}) {
    if (!row.find(key) || has_text(row, key, "none") || has_text(row, key, "step")) continue;
    problem += fmt::format(", {} {}", key, required_text(row, key));
  }
  for (const char* key : {"model", "arch", "layers", "d_ff", "vocabulary", "recompute", "pass", "clip", "threads"}) {
    if (const Json* value = row.find(key)) config.set(key, *value);
  }
  if (const Json* threads = row.find("threads_per_rank")) config.set("threads", *threads);
  config.set("problem", problem);
  std::string implementation =
      is_parallel ? required_text(row, "strategy") : "attention " + required_text(row, "attention");
  if (is_parallel && required(row, "ranks").is_integer()) {
    const Json* bucket = row.find("bucket_bytes");
    if (bucket && bucket->is_number()) implementation += fmt::format(" {:g} MB", 1e-6 * bucket->as_number());
    implementation += ", " + counted(row.at("ranks").as_integer(), "rank");
  }
  Json out = new_row(row, implementation, std::move(config));
  if (!has_text(row, "status", "ok")) return out;
  if (is_parallel) {
    add_times(out, "step", required(row, "step"), 0);
    return out;
  }
  const Json& whole = required(row, "whole");
  const Json* flops = row.find("flop");
  const bool is_forward = has_text(row, "pass", "forward");
  add_times(out, is_forward ? "forward" : "step", whole, flops && flops->is_number() ? flops->as_number() : 0);
  const Json* peak = whole.find("peak_bytes");
  if (peak && peak->is_number()) out.set("peak_memory_usage(MB)", peak->as_number() / kMiB);
  return out;
}

Json collective_row(const Json& row) {
  const Json &bytes = required(row, "bytes"), &ranks = required(row, "ranks");
  if (!bytes.is_integer() || bytes.as_integer() < 1 || !ranks.is_integer()) {
    fail(ErrorCode::invalid_argument, "bytes is {} and ranks {}; valid: whole numbers from 1", bytes.dump(),
         ranks.dump());
  }
  const std::string problem =
      fmt::format("{} of {}, {}", required_text(row, "operation"),
                  bytes_text(static_cast<std::size_t>(bytes.as_integer())), counted(ranks.as_integer(), "rank"));
  Json out = new_row(row, required_text(row, "engine") + (has_text(row, "memory", "gpu") ? ", GPU memory" : ""),
                     Json::object({{"batch_size", 1},
                                   {"seq_len", 1},
                                   {"num_heads", 1},
                                   {"emb_dim", 1},
                                   {"causal", false},
                                   {"dtype", "fp32"},
                                   {"device", has_text(row, "memory", "gpu") ? "cuda" : "cpu"},
                                   {"operation", required(row, "operation")},
                                   {"bytes", bytes},
                                   {"ranks", ranks},
                                   {"problem", problem}}));
  if (has_text(row, "status", "ok")) add_times(out, "step", required(row, "statistics"), 0);
  return out;
}

Json rung_row(const Json& row) {
  const Json& size = required(row, "case");
  const std::string name = required_text(size, "name");
  const std::string problem =
      fmt::format("{}{} x {} x {}", name.empty() ? "" : name + ": ", required_text(size, "batch"),
                  required_text(size, "rows"), required_text(size, "dim"));
  std::string implementation = row.find("rung") ? required_text(row, "rung") : "pinned";
  if (row.find("without") && !has_text(row, "without", ""))
    implementation += " without " + required_text(row, "without");
  Json out = new_row(row, implementation,
                     Json::object({{"batch_size", required(size, "batch")},
                                   {"seq_len", required(size, "rows")},
                                   {"num_heads", 1},
                                   {"emb_dim", required(size, "dim")},
                                   {"causal", false},
                                   {"dtype", "fp32"},
                                   {"device", has_text(row, "device", "gpu") ? "cuda" : "cpu"},
                                   {"problem", problem}}));
  if (!has_text(row, "status", "ok")) return out;
  const Json* flops = row.find("flops");
  add_times(out, "forward", required(row, "statistics"), flops && flops->is_number() ? flops->as_number() : 0);
  return out;
}

}  // namespace

std::optional<Json> row_as_of_bench(const Json& row) {
  if (row.find("model") && row.find("context")) return step_row(row);
  if (has_text(row, "kind", "collective")) return collective_row(row);
  if (has_text(row, "kind", "rung") || has_text(row, "kind", "ablation")) return rung_row(row);
  return std::nullopt;
}

}  // namespace strobe::report
