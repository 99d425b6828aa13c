// Tests `strobe lm bench --ddp` as users run it, on two ranks: one row per strategy, and a trace.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "cli/run_program.h"
#include "comm/engine.h"
#include "core/json.h"

namespace strobe::test {
namespace {

const std::string kFlags = "lm bench --size tiny --context 8 --batch 2 --threads 1 --warmup 1 ";

class LmBenchDdp : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* why = comm::why_no_mpi()) GTEST_SKIP() << why;
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun in PATH";
  }
  Program bench(int ranks, const std::string& flags) const {
    return run_program("launch -n " + std::to_string(ranks) + " --grace 60 -- " + kFlags + flags, scratch_);
  }

  const Scratch scratch_;
};

TEST_F(LmBenchDdp, EveryStrategyHasRowsNextToThatOfOneProcess) {
  const Program program = bench(2, "--ddp all --bucket-mb 0.5,1000 --steps 3 --output out.json --trace trace.json");
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("vs one"), std::string::npos) << program.output;
  const Json document = Json::parse(scratch_.read("out.json"));
  const auto& rows = document.at("rows").as_array();
  ASSERT_EQ(rows.size(), 1u + 4 + 3 * 2) << "strategies with buckets have two rows";
  const std::int64_t bytes = 4 * rows[0].at("parameters").as_integer();
  std::map<std::string, const Json*> by_name;
  for (const Json& row : rows) {
    const std::string name = row.at("strategy").as_string();
    const bool alone = name == "one process", sharded = name.starts_with("sharded");
    const std::int64_t moved = name == "sharded-rs" ? 2 * bytes + 8 : alone ? 0 : sharded ? 2 * bytes : bytes;
    EXPECT_EQ(row.at("ranks").as_integer(), alone ? 1 : 2);
    EXPECT_EQ(row.at("exchanged_bytes").as_integer(), moved) << name;
    EXPECT_LE(row.at("optimizer_bytes").as_integer(), (sharded ? 1 : 2) * bytes + 8 * row.at("buckets").as_integer());
    EXPECT_GE(row.at("optimizer_bytes").as_integer(), (sharded ? 1 : 2) * bytes) << name;
    EXPECT_EQ(row.at("by_rank").as_array().size(), alone ? 1u : 2u);
    for (const Json& rank : row.at("by_rank").as_array()) {
      for (const char* key : {"step_s", "forward_s", "exposed_s", "hidden_s"}) {
        double sum = 0;
        for (const Json& sample : rank.at("samples").at(key).as_array()) sum += sample.as_number();
        EXPECT_NEAR(sum / 3, rank.at(key).as_number(), 1e-9 + 1e-9 * sum) << name << " " << key;
      }
    }
    EXPECT_NEAR(row.at("loss").as_number(), rows[0].at("loss").as_number(), 1e-4) << name;
    EXPECT_EQ(row.at("step").at("n").as_integer(), 3);
    EXPECT_GT(row.at("seconds_per_million_tokens").as_number(), 0);
    const auto part = [&](const char* key) { return row.at(std::string("part_") + key).at("mean_s").as_number(); };
    for (const char* key : {"forward", "backward", "optimizer"}) EXPECT_GT(part(key), 0) << name;
    const double parts = part("forward") + part("backward") + part("exposed") + part("optimizer");
    EXPECT_LE(parts, row.at("step").at("mean_s").as_number() * 1.0001) << name;
    by_name[name] = &row;
  }
  const std::int64_t parameters = by_name.at("naive")->at("calls").as_integer();
  EXPECT_GT(parameters, 10);
  EXPECT_EQ(by_name.at("overlap")->at("calls").as_integer(), parameters);
  EXPECT_EQ(by_name.at("flat")->at("calls").as_integer(), 1);
  EXPECT_EQ(by_name.at("bucketed")->at("calls").as_integer(), 1) << "the last row has buckets of 1000 MB";
  EXPECT_EQ(by_name.at("naive")->at("exposed_less_than_naive").as_number(), 0);
  EXPECT_EQ(by_name.at("naive")->at("speedup_over_naive").as_number(), 1);
  for (const auto& [name, row] : by_name) {
    if (name == "one process") continue;
    const double exposed = row->at("part_exposed").at("mean_s").as_number(),
                 share = row->at("communication_share").as_number();
    double steps = 0;
    for (const Json& rank : row->at("by_rank").as_array()) steps += rank.at("step_s").as_number() / 2;
    EXPECT_NEAR(share, exposed / steps, 1e-8) << name;
  }
  EXPECT_NE(program.output.find("flat vs naive: "), std::string::npos) << program.output;

  // `strobe plan` accepts the written rows. It predicts each row except the one of a single process, which exchanges
  // nothing.
  const Program plan =
      run_program("plan --machine here --bench out.json --bandwidth 2 --latency 10 --check out.json", scratch_);
  EXPECT_EQ(plan.code, 0) << plan.errors;
  EXPECT_NE(plan.output.find("tiny, context 8, batch 2, fp32, sharded-rs of 1000 MB, 2 ranks"), std::string::npos)
      << plan.output;

  // In the trace, each step has its phases and as many communication calls as the row reports.
  std::map<std::string, double> calls;
  double backward_ended = 0;
  std::string step;
  int traced = 0;
  const Json trace = Json::parse(scratch_.read("trace.json"));
  for (const Json& event : trace.at("traceEvents").as_array()) {
    if (event.at("ph").as_string() != "X" || event.at("pid").as_integer() != 2) continue;
    const std::string name = event.at("name").as_string();
    const double begin = event.at("ts").as_number(), end = begin + event.at("dur").as_number();
    EXPECT_LE(begin, end) << name;
    if (event.at("tid").as_integer() == 1) step = name, ++traced;
    if (name == "backward") backward_ended = end;
    if (event.at("tid").as_integer() != 3) continue;
    ++calls[step];
    EXPECT_TRUE(begin > backward_ended - 1e-3 || !step.ends_with("fp32, naive")) << "naive waits for backward";
  }
  EXPECT_EQ(traced, 10);
  EXPECT_EQ(calls["tiny, context 8, batch 2, fp32, naive"], parameters);
  EXPECT_EQ(calls["tiny, context 8, batch 2, fp32, sharded"], 2);
}

// If one cell does not fit in memory, its rows have the status "oom", no rank hangs, and the other cell is measured.
TEST_F(LmBenchDdp, ACellThatDoesNotFitHasRows) {
  const Program program = run_program(
      "launch -n 2 --grace 60 -- lm bench --ddp flat --size tiny --context 64 --batch 2,1000000 --threads 1 "
      "--warmup 0 --steps 1 --output out.json",
      scratch_);
  ASSERT_EQ(program.code, 0) << program.errors;
  std::vector<std::string> statuses;
  const Json document = Json::parse(scratch_.read("out.json"));
  for (const Json& row : document.at("rows").as_array()) statuses.push_back(row.at("status").as_string());
  EXPECT_EQ(statuses, (std::vector<std::string>{"ok", "ok", "oom", "oom"}));
}

TEST_F(LmBenchDdp, RejectsFlagsThatRanksDoNotSupport) {
  const auto refused = [&](const std::string& more, const std::string& says, const std::string& before = "") {
    const Program program = run_program(kFlags + more, scratch_, before);
    EXPECT_EQ(program.code, 2) << program.errors;
    EXPECT_EQ(program.errors.substr(0, 8 + says.size()), "strobe: " + says);
    EXPECT_EQ(scratch_.entries(), 0u);
  };
  refused("", "lm bench: 3 ranks without --ddp; valid: ", "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=3");
  refused("--ddp flat --bucket-mb 3,1.0", "--bucket-mb 3,1.0: --ddp flat has no buckets; valid with bucketed, ");
  refused("--bucket-mb 3,1.0", "--bucket-mb 3,1.0: without --ddp");
  refused("--ddp flat,ring", "--ddp ring: valid: naive, flat");
  refused("--ddp flat,all", "--ddp all: valid: naive, flat");
  refused("--ddp flat --pass forward", "--pass: with --ddp whole steps are measured");
  refused("--ddp flat --engine nccl --device cpu", "--engine nccl: ");
  refused("--engine mpi", "--engine: nothing is exchanged without --ddp");
  refused("--ddp flat --as-one-process=1,1", "--as-one-process 1: ");  // the only cell has number 0
  refused("--trace trace.json", "--trace: valid only with --ddp");
  const Program odd = bench(3, "--ddp flat");
  EXPECT_EQ(odd.code, 2) << odd.errors;
  EXPECT_EQ(
      odd.errors,
      "strobe: launch: all 3 ranks: a batch of 2 sequences on 3 ranks; valid: a multiple of the number of ranks\n");
  const Program plain = run_command(
      "mpirun --allow-run-as-root --oversubscribe -q -n 3 '" STROBE_PROGRAM "' " + kFlags + "--ddp flat", scratch_);
  const std::size_t line = plain.errors.find("strobe: a batch of 2 sequences on 3 ranks");
  EXPECT_NE(line, std::string::npos) << plain.errors;
  EXPECT_EQ(plain.errors.find("strobe: ", line + 1), std::string::npos) << "only rank 0 prints: " << plain.errors;
  EXPECT_EQ(bench(2, "--ddp flat --trace /nowhere/trace.json").errors,  // refused by rank 0, printed once
            "strobe: launch: all 2 ranks: --trace /nowhere/trace.json: cannot be written: No such file or directory\n");
}

}  // namespace
}  // namespace strobe::test
