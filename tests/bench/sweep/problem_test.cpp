// Tests the problems of a sweep (cases with their implementations): sizes, keys that identify a cell (a case and an
// implementation), shards, and predicted memory.
#include "bench/sweep/problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "bench/sweep/result_file.h"

namespace strobe::bench {
namespace {

AttentionCase a_case(std::int64_t batch, std::int64_t seq) {
  return {.batch = batch, .heads = 2, .kv_heads = 2, .seqlen_q = seq, .seqlen_k = seq, .head_dim = 16};
}

TEST(SweepProblem, ShrinkDividesTheBatchThenSequencesAndIsRecorded) {
  AttentionCase one = a_case(16, 2048);
  one.seqlen_k = 100;
  const SweepProblem problem = make_problem(one, {"flash2"}, 32);
  EXPECT_EQ(problem.one.batch, 1);
  EXPECT_EQ(problem.one.seqlen_q, 1024);
  EXPECT_EQ(problem.one.seqlen_k, 50);
  EXPECT_EQ(problem.config.at("shrink").as_integer(), 32);
  EXPECT_EQ(problem.config.at("seq_len").as_integer(), 1024);
  EXPECT_EQ(make_problem(one, {"flash2"}, 4).one.batch, 4);
  EXPECT_EQ(make_problem(one, {"flash2"}, 4).one.seqlen_k, 100);
  EXPECT_EQ(make_problem(one, {"flash2"}, 1 << 20).one.seqlen_q, 512);
  EXPECT_EQ(make_problem(one, {"flash2"}, 1 << 20).one.seqlen_k, 1);
  EXPECT_EQ(make_problem(a_case(0, 0), {"flash2"}, 4).one.batch, 0);
  EXPECT_EQ(make_problem(a_case(1, 0), {"flash2"}, 4).one.seqlen_q, 0);
}

std::vector<AttentionCase> lab5(Device device) {
  std::vector<AttentionCase> cells;
  for (const std::int64_t batch : {16, 32, 64}) {
    for (const std::int64_t seq : {512, 1024}) {
      for (const std::int64_t heads : {16, 32}) {
        for (const std::int64_t emb : {1024, 2048}) {
          for (const bool causal : {false, true}) {
            cells.push_back({.batch = batch,
                             .heads = heads,
                             .kv_heads = heads,
                             .seqlen_q = seq,
                             .seqlen_k = seq,
                             .head_dim = emb / heads,
                             .dtype = DType::fp16,
                             .causal = causal,
                             .device = device});
          }
        }
      }
    }
  }
  return cells;
}

// The prediction exceeds 8 GiB exactly for those cells that ran out of memory on the source report's 8 GB GPU.
TEST(PredictedMemory, PlainAttentionFitsInEightGigabytesAsInTheSourceReport) {
  constexpr std::int64_t kLimit = std::int64_t{8} << 30;
  for (const AttentionCase& one : lab5(Device::cuda)) {
    const bool too_large = one.seqlen_q == 1024 && (one.batch == 64 || (one.batch == 32 && one.heads == 32));
    EXPECT_EQ(predicted_memory(one, "torch-naive").bytes.value() > kLimit, too_large) << describe(one);
  }
  for (const AttentionCase& one : lab5(Device::cpu)) {
    const bool too_large = one.seqlen_q == 1024 && (one.batch == 64 || (one.batch == 32 && one.heads == 32));
    EXPECT_EQ(predicted_memory(one, "standard").bytes.value() > kLimit, too_large) << describe(one);
  }
}

TEST(PredictedMemory, PlainAttentionExceeds24GibAtLength16384) {
  constexpr std::int64_t kLimit = std::int64_t{24} << 30;
  for (const Device device : {Device::cpu, Device::cuda}) {
    for (const std::int64_t dim : {16, 32, 64, 128}) {
      for (const std::int64_t seq : {256, 1024, 4096, 8192, 16384}) {
        const AttentionCase one{.batch = 8,
                                .heads = 1,
                                .kv_heads = 1,
                                .seqlen_q = seq,
                                .seqlen_k = seq,
                                .head_dim = dim,
                                .dtype = DType::fp32,
                                .device = device};
        EXPECT_EQ(predicted_memory(one, "torch-naive").bytes.value() > kLimit, seq == 16384) << describe(one);
        if (device == Device::cpu) {
          EXPECT_EQ(predicted_memory(one, "standard").bytes.value() > kLimit, seq == 16384) << describe(one);
        }
      }
    }
  }
}

TEST(PredictedMemory, StandardNeedsMoreThanFlash2InEveryShrunkCellOfLab5) {
  for (const AttentionCase& one : lab5(Device::cpu)) {
    const AttentionCase shrunk = make_problem(one, {"flash2", "standard"}, 16).one;
    EXPECT_GT(predicted_memory(shrunk, "standard").bytes.value(), predicted_memory(shrunk, "flash2").bytes.value())
        << describe(shrunk);
  }
}

TEST(SweepProblem, LengthsFollowTheShrunkenShape) {
  AttentionCase one = a_case(4, 64);
  one.options.lengths = {60, 3, 64, 5};
  const SweepProblem problem = make_problem(one, {"flash2"}, 8);
  EXPECT_EQ(problem.one.options.lengths, (std::vector<std::int32_t>{32}));
  EXPECT_EQ(make_problem(one, {"flash2"}, 2).one.options.lengths, (std::vector<std::int32_t>{60, 3}));
}

TEST(SweepProblem, ARowHasTheKeyOfItsCell) {
  AttentionCase one = a_case(1, 8);
  one.options.softcap = 30;
  one.options.dropout = 0.1;
  const SweepProblem problem = make_problem(one, {"flash2"});
  Json row = Json::parse(Json::object({{"config", problem.config}}).dump());
  row.set("implementation", "flash2");
  EXPECT_EQ(cell_key(row), cell_key(problem, "flash2"));
  EXPECT_NE(cell_key(row), cell_key(problem, "standard"));
  Json::Object members = problem.config.as_object();
  std::ranges::reverse(members);
  EXPECT_EQ(cell_key(Json(row).set("config", Json::object(members))), cell_key(row)) << "another order of keys";
  const std::vector<SweepProblem> launches = launched({problem}, 3);
  ASSERT_EQ(launches.size(), 3u);
  // A row without a launch number belongs to the first launch.
  EXPECT_EQ(cell_key(row), cell_key(launches[0], "flash2"));
  EXPECT_NE(cell_key(row), cell_key(launches[1], "flash2"));
  row.set("launch", launch_json(launches[1]));
  EXPECT_EQ(cell_key(row), cell_key(launches[1], "flash2"));
  one.threads = 7;
  EXPECT_NE(cell_key(make_problem(one, {}), "flash2"), cell_key(problem, "flash2"));
}

TEST(ProblemList, TheSameConfigurationIsOneProblem) {
  ProblemList list;
  EXPECT_EQ(list.add(make_problem(a_case(1, 8), {"flash2"})), 0u);
  EXPECT_EQ(list.add(make_problem(a_case(1, 9), {"flash2"})), 0u);
  EXPECT_EQ(list.add(make_problem(a_case(1, 8), {"flash2", "standard"})), 1u);
  ASSERT_EQ(list.problems().size(), 2u);
  EXPECT_EQ(list.problems()[0].implementations, (std::vector<std::string>{"flash2", "standard"}));
  EXPECT_EQ(count_cells(list.problems()), 3u);
}

TEST(Shares, CoverEverythingOnceAndAreBalanced) {
  std::vector<SweepProblem> problems;
  for (std::int64_t seq = 128; seq <= 4096; seq *= 2) {
    for (const std::int64_t batch : {1, 2, 4}) problems.push_back(make_problem(a_case(batch, seq), {"flash2"}));
  }
  const StoppingRule rule{.repeats = 100};
  std::multiset<std::string> seen;
  std::vector<double> loads;
  for (int number = 1; number <= 4; ++number) {
    double load = 0;
    for (const SweepProblem& problem : share_of(problems, rule, number, 4)) {
      seen.insert(problem.config.dump());
      load += predicted_seconds(problem, rule);
    }
    loads.push_back(load);
  }
  EXPECT_EQ(seen.size(), problems.size());
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), problems.size());
  const auto [least, most] = std::minmax_element(loads.begin(), loads.end());
  double largest = 0;
  for (const SweepProblem& problem : problems) largest = std::max(largest, predicted_seconds(problem, rule));
  EXPECT_LE(*most - *least, largest);
  EXPECT_EQ(share_of(problems, rule, 1, 1).size(), problems.size());
  EXPECT_TRUE(share_of({problems[0]}, rule, 2, 2).empty());
}

TEST(Prediction, GrowsWithWorkAndReportsUnsupportedCases) {
  const StoppingRule rule;
  EXPECT_GT(predicted_call(a_case(1, 256), "standard", 1e11), predicted_call(a_case(1, 256), "flash2", 1e11));
  EXPECT_GT(predicted_call(a_case(1, 512), "flash2", 1e11), predicted_call(a_case(1, 256), "flash2", 1e11));
  EXPECT_LT(predicted_seconds(a_case(64, 65536), "standard", rule, 1e11), 1e9);
  EXPECT_GT(predicted_memory(a_case(1, 256), "standard").bytes.value(), 0);
  EXPECT_GT(predicted_memory(a_case(1, 256), "torch-sdpa").bytes.value(), 0);
  EXPECT_GT(predicted_memory(a_case(1, 256), "cudnn").bytes.value(), 0);  // predicted without cuDNN
  EXPECT_NE(predicted_memory(a_case(1, 8), "no such kernel").refusal, "");
}

// The script always writes `_causal`, and a second `_causal` for a causal mask.
TEST(SourceFileName, MatchesTheSourceScript) {
  AttentionCase one = a_case(16, 512);
  EXPECT_EQ(source_file_name(config_json(one), "flash2"), "result_bs16_sl512_nh2_ed32_Flash2_causal.json");
  one.causal = true;
  EXPECT_EQ(source_file_name(config_json(one), "standard"), "result_bs16_sl512_nh2_ed32_Pytorch_causal_causal.json");
}

}  // namespace
}  // namespace strobe::bench
