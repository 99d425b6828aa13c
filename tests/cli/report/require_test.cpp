// Tests `strobe compare --require` with the limits files of sweeps/ on constructed rows, and tools/lm-grid, which runs
// that command. The values are on both sides of the limits.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "cli/run_program.h"
#include "core/case_text.h"
#include "core/json.h"

namespace strobe::test {
namespace {

struct MadeUpRow {
  std::string implementation;
  std::string text;                              // the case, as core/case_text.h defines
  std::map<std::string, double> milliseconds{};  // per pass; empty: the case ran out of memory
  double megabytes = 1;
};

Json json_of(const std::string& value) {
  if (value == "on" || value == "off") return value == "on";
  if (value.find_first_not_of("0123456789.") == std::string::npos) return Json::parse(value);
  return value;
}

Json config_of(const std::string& text) {
  Json config = Json::object({{"causal", false}, {"device", "cuda"}, {"threads", 1}});
  for (const CaseWord& word : case_words(text)) config.set(word.name, json_of(word.value));
  const Json* const dim = config.find("head_dim");
  if (dim) config.set("emb_dim", config.at("num_heads").as_integer() * dim->as_integer());
  return config;
}

// Returns a row with 1e12 FLOP, and machine ceilings of 1e15 FLOP/s and 4e12 bytes/s.
Json row_of(const MadeUpRow& row) {
  const Json config = config_of(row.text);
  const Json rates = Json::object({{config.at("dtype").as_string(), 1e15}});
  const Json ceilings = Json::object({{"matrix_product(FLOP/s)", rates}, {"copy(B/s)", 4e12}});
  Json json = Json::object({{"status", row.milliseconds.empty() ? "oom" : "ok"},
                            {"implementation", row.implementation},
                            {"config", config},
                            {"environment", Json::object({{"ceilings", ceilings}})},
                            {"peak_memory_usage(MB)", row.megabytes}});
  for (const auto& [pass, ms] : row.milliseconds) {
    json.set(pass, Json::object({{"time(s)", ms * 1e-3}, {"FLOPS(TFLOPs/s)", 1e3 / ms}}));
  }
  return json;
}

Program compare_with_limits(const std::vector<MadeUpRow>& rows, const std::string& limits, const Scratch& scratch) {
  std::ofstream file(scratch.path() / "rows.jsonl");
  for (const MadeUpRow& row : rows) file << row_of(row).dump() << "\n";
  file.close();
  return run_program("compare rows.jsonl --require " + limits, scratch);
}

// Returns the number of missed limits, which the last line reports.
int missed(const std::vector<MadeUpRow>& rows, const std::string& limits) {
  const Scratch scratch;
  const Program program = compare_with_limits(rows, limits, scratch);
  const std::size_t line = program.output.rfind('\n', program.output.size() - 2) + 1;
  const int count = std::atoi(program.output.c_str() + line);
  EXPECT_EQ(program.code, count > 0) << program.output << program.errors;
  return count;
}

std::map<std::string, double> both(double ms) { return {{"forward", ms}, {"backward", 2 * ms}}; }

// Returns rows in which flash2 is `ratio` times as fast as PyTorch. In decoding, flash2 takes decode_ms and PyTorch 1
// ms.
std::vector<MadeUpRow> gpu_speed(double ratio, double decode_ms, double megabytes) {
  std::vector<MadeUpRow> rows;
  for (const char* text : {"b16 h32 s1024 d64 fp16 causal", "b32 h8 s512 d256 bf16", "b32 h8 s512 d64 fp32"}) {
    rows.push_back({"flash2", text, both(1), megabytes});
    rows.push_back({"torch-sdpa", text, both(ratio)});
  }
  const std::string decode = "b64 h32/4 s1x8192 d128 bf16";
  rows.push_back({"flash2", decode, {{"forward", decode_ms}}});
  rows.push_back({"torch-sdpa", decode, {{"forward", 1}}});
  rows.push_back({"flash2", "b1 h32/4 s1x8192 d128 bf16", {{"forward", 1}}});  // too small to fill the GPU
  return rows;
}

TEST(Require, GpuSpeedCountsMissedLimits) {
  EXPECT_EQ(missed(gpu_speed(2.1, 0.3, 644), "gpu-speed"), 0);
  EXPECT_EQ(missed(gpu_speed(0.6, 0.5, 646), "gpu-speed"), 7);
  EXPECT_EQ(missed(gpu_speed(1, 0.3, 644), "gpu-speed"), 2);  // fp32, forward and backward
}

// Returns rows in which hopper needs `ms` per forward pass, cuDNN `ratio` times and FlashAttention-3 `fa3_ratio` times
// as long.
std::vector<MadeUpRow> hopper(double ratio, double fa3_ratio, double ms) {
  std::vector<MadeUpRow> rows;
  for (const char* text :
       {"b16 h32 s1024 d64 fp16 causal", "b1 h16 s16384 d64 bf16 causal", "b1 h8 s16384 d256 bf16"}) {
    rows.push_back({"hopper", text, both(ms)});
    rows.push_back({"cudnn", text, both(ratio * ms)});
    if (fa3_ratio > 0) rows.push_back({"fa3", text, both(fa3_ratio * ms)});
  }
  return rows;
}

TEST(Require, HopperCountsMissedLimits) {
  EXPECT_EQ(missed(hopper(1.1, 1.1, 0.2), "hopper"), 0);
  EXPECT_EQ(missed(hopper(1.1, 0, 0.2), "hopper"), 0);  // without FlashAttention-3
  EXPECT_EQ(missed(hopper(1.1, 0.8, 0.8), "hopper"), 8);
  EXPECT_EQ(missed(hopper(0.97, 1.1, 0.2), "hopper"), 4);  // means, and the leaderboard's cell
  EXPECT_EQ(missed(hopper(1.1, 1.1, 0.3), "hopper"), 1);   // the source report's forward
}

TEST(Require, HopperOptionsCountsMissedLimits) {
  const auto rows = [](double ratio, double plain, double dropping, double decode) {
    std::vector<MadeUpRow> all;
    const auto add = [&](const std::string& text, const char* peer, double ms) {
      all.push_back({"hopper", text, both(ms)});
      all.push_back({peer, text, both(ratio * ms)});
    };
    for (const char* text : {"h16 causal", "h16 causal window=1024:0", "h16 softcap=30", "h16 alibi", "h16/2",
                             "h16 bias=1hqk bias_gradient"})
      add(std::string("b4 s4096 d128 bf16 ") + text, "torch-flex", 1);
    for (const char* text : {"b4 s4096 d128 bf16 h16", "b4 s4096 d64 bf16 h32"}) {
      all.push_back({"hopper", text, both(plain)});
      add(text + std::string(" dropout=0.1"), "torch-flash", dropping);
    }
    all.push_back({"hopper", "b16 h32/8 s1x8192 d128 bf16", {{"forward", decode}}});
    all.push_back({"torch-cudnn", "b16 h32/8 s1x8192 d128 bf16", {{"forward", 0.14}}});
    return all;
  };
  EXPECT_EQ(missed(rows(1.4, 1, 1.3, 0.139), "hopper-options"), 0);
  EXPECT_EQ(missed(rows(1.25, 1, 1.3, 0.139), "hopper-options"), 6);  // all limits except that of the bias
  EXPECT_EQ(missed(rows(1.4, 1, 1.4, 0.139), "hopper-options"), 1);   // dropout at D 128
  EXPECT_EQ(missed(rows(1.4, 1, 1.6, 0.15), "hopper-options"), 4);
}

TEST(Require, CpuSpeedIsRelativeToThePeersOrToTheMatmulRate) {
  const auto rows = [](double ms, double peer_ms) {
    const std::string text = "b1 h8 s512 d64 fp32 device=cpu";
    return std::vector<MadeUpRow>{{"flash2", text, {{"forward", ms}}}, {"torch-sdpa", text, {{"forward", peer_ms}}}};
  };
  EXPECT_EQ(missed(rows(2, 3), "cpu-speed"), 0);
  EXPECT_EQ(missed(rows(2, 2.9), "cpu-speed"), 1);
  EXPECT_EQ(missed(rows(1.1, 1.2), "cpu-speed"), 0);  // 1e12 FLOP in 1.1 ms are 91 % of the matmul rate
  EXPECT_EQ(missed(rows(1.2, 1.2), "cpu-speed"), 1);
}

TEST(Require, FeaturesAreSharesOfThePlainRate) {
  const std::string plain = "b2 h4 s1024 d64 bf16";
  const auto rows = [&](const std::string& feature, double share) {
    const std::string text = feature.starts_with('h') ? "b2 " + feature + " s1024 d64 bf16" : plain + " " + feature;
    return std::vector<MadeUpRow>{{"flash2", plain, both(1)}, {"flash2", text, both(1 / share)}};
  };
  for (const char* feature : {"window=256:0", "softcap=30", "lengths=896:549", "alibi", "sinks", "h4/1"}) {
    EXPECT_EQ(missed(rows(feature, 0.76), "features"), 0) << feature;
    EXPECT_EQ(missed(rows(feature, 0.74), "features"), 1) << feature;
  }
  for (const char* feature : {"bias=1hqk", "bias=1hqk bias_gradient"}) {
    EXPECT_EQ(missed(rows(feature, 0.61), "features"), 0) << feature;
    EXPECT_EQ(missed(rows(feature, 0.59), "features"), 1) << feature;
  }
  EXPECT_EQ(missed(rows("dropout=0.1", 0.64), "features"), 1);
}

TEST(Require, WritesMarkdownAndNamesMissedLimits) {
  const Scratch scratch;
  const Program program = compare_with_limits(hopper(1.1, 0.8, 0.8), "hopper --markdown out.md", scratch);
  EXPECT_NE(program.output.find("MISSED by 1, worst: batch "), std::string::npos) << program.output;
  EXPECT_TRUE(program.output.ends_with("8 of 8 limits missed\nwritten: out.md\n")) << program.output;
  EXPECT_NE(scratch.read("out.md").find("| bf16 e2048: each speedup:cudnn,fa3 of forward &gt;= 0.95 |"),
            std::string::npos)
      << scratch.read("out.md");
}

TEST(Require, BadInputIsOneLine) {
  const Scratch scratch;
  std::ofstream(scratch.path() / "rows.jsonl") << row_of({"flash2", "b1 h1 s8 d8 fp32", both(1)}).dump() << "\n";
  std::ofstream(scratch.path() / "bad.limits") << "require each ms\n";
  for (const auto& [arguments, says] : std::initializer_list<std::pair<const char*, const char*>>{
           {"rows.jsonl --require ./none.limits", "--require ./none.limits: cannot be read"},
           {"rows.jsonl --require nothing", "--require nothing: unknown; valid: cpu-speed, features, "},
           {"rows.jsonl --require ./bad.limits", "--require ./bad.limits: line 1: ends too early; valid next: >=, "},
           {"rows.jsonl --require hopper", "--require: no limit applies to any of the 1 cell"},
           {"rows.jsonl --require noise", "rows.jsonl: a cell has only one launch; limits on a change need at least 2"},
           {"rows.jsonl --by mean --require hopper", "--by mean: valid: median, min"},
           {"rows.jsonl", "compare: 1 file given; it takes two: strobe compare A B"}}) {
    const Program program = run_program(std::string("compare ") + arguments, scratch);
    EXPECT_EQ(program.code, 2) << arguments;
    EXPECT_EQ(program.errors.find(std::string("strobe: ") + says), 0u) << program.errors;
    EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << program.errors;
  }
}

// Returns a row of tools/lm-grid: two equal runs of strobe and one run of PyTorch.
std::string lm_row(const std::string& size, const std::string& precision, const std::string& own,
                   const std::string& peer, const std::string& device = "cuda") {
  return fmt::format(R"({{"size":"{}","precision":"{}","batch":4,"device":"{}","own":[{},{}],"peer":{}}})", size,
                     precision, device, own, own, peer);
}

std::string lm_own(double rate, int peak = 1) {
  return fmt::format(R"j({{"status":"ok","tokens_per_s":{},"flop":1e9,"whole":{{"peak_bytes":{}}}}})j", rate, peak);
}

std::string lm_peer(double rate, int tokens = 2048) {
  return fmt::format(R"({{"seconds":{},"peak":2,"torch":"2"}})", tokens / rate);
}

int lm_grid_code(const std::string& row) {
  const Scratch scratch;
  std::ofstream(scratch.path() / "rows.json") << R"({"date":"today","environment":{},"rows":[)" << row << "]}";
  const Program program = run_command(
      "python3 '" STROBE_SOURCE_DIR "/tools/lm-grid' --read --json rows.json --program '" STROBE_PROGRAM "'", scratch);
  EXPECT_EQ(program.errors, "");
  EXPECT_NE(program.output.find("limits missed"), std::string::npos) << program.output;
  return program.code;
}

TEST(Require, LmGridChecksTheTrainingStepAgainstItsLimits) {
  EXPECT_EQ(lm_grid_code(lm_row("small", "bf16", lm_own(301), lm_peer(100))), 0);
  EXPECT_EQ(lm_grid_code(lm_row("small", "bf16", lm_own(299), lm_peer(100))), 1);
  EXPECT_EQ(lm_grid_code(lm_row("xl", "bf16", lm_own(131), lm_peer(100))), 0);
  EXPECT_EQ(lm_grid_code(lm_row("2.7B", "bf16", lm_own(129), lm_peer(100))), 1);
  EXPECT_EQ(lm_grid_code(lm_row("xl", "tf32", lm_own(129), lm_peer(100))), 1);
  EXPECT_EQ(lm_grid_code(lm_row("xl", "bf16", lm_own(200, 3), lm_peer(100))),
            1);  // strobe uses more memory than PyTorch
  EXPECT_EQ(lm_grid_code(lm_row("xl", "bf16", R"({"status":"oom","reason":"why"})", lm_peer(100))), 1);
  EXPECT_EQ(lm_grid_code(lm_row("2.7B", "bf16", lm_own(5), R"({"error":"out of memory"})")), 0);
  EXPECT_EQ(lm_grid_code(lm_row("tiny", "fp32", lm_own(101), lm_peer(100, 512), "cpu")), 0);
}

}  // namespace
}  // namespace strobe::test
