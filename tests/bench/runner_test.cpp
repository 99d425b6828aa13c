// Tests bench/runner.h: rows, statuses and time samples of the library's kernels and of faulty PyTorch processes.
#include "bench/runner.h"

#include <gtest/gtest.h>

#include "bench/fake_python.h"
#include "bench/python_child.h"
#include "bench/row.h"

namespace strobe::bench {
namespace {

AttentionCase tiny() {
  return {.batch = 1, .heads = 2, .kv_heads = 2, .seqlen_q = 40, .seqlen_k = 40, .head_dim = 16, .dtype = DType::fp32};
}

RunOptions few(int repeats) {
  RunOptions options;
  options.rule.repeats = repeats;
  return options;
}

std::vector<Row> run(const AttentionCase& one, const std::vector<std::string>& names, const RunOptions& options,
                     double peer_timeout = 20) {
  Implementations implementations;
  const auto python = std::make_shared<PythonChild>(peer_timeout);
  for (const std::string& name : names) {
    implementations.push_back(make_implementation(canonical_name(name), {.python = python}));
  }
  return run_case(one, implementations, options);
}

TEST(Runner, TakesExactlyTheRepeatsOfEachRegion) {
  const std::vector<Row> rows = run(tiny(), {"Flash2", "Pytorch", "reference"}, few(7));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].implementation, "flash2");
  EXPECT_EQ(rows[1].implementation, "standard");
  for (const Row& row : rows) {
    EXPECT_EQ(row.status, Status::ok) << row.reason;
    for (const Region region : kRegions) {
      EXPECT_EQ(row.series(region).samples.size(), 7u) << row.implementation << " " << name_of(region);
      EXPECT_EQ(row.series(region).stop, Stop::repeats);
    }
    EXPECT_EQ(row.gate->comparisons.size(), 5u);
  }
}

TEST(Runner, ReportsTheRemainingTimeUntilZero) {
  RunOptions options = few(100);
  std::vector<double> remaining;
  options.left = [&](double seconds) { remaining.push_back(seconds); };
  run(tiny(), {"flash2", "reference"}, options);
  ASSERT_GT(remaining.size(), 2u);
  EXPECT_EQ(remaining.front(), 0) << "short first calls give no estimate";
  EXPECT_GT(remaining[1], 0);
  EXPECT_EQ(remaining.back(), 0);
}

TEST(Runner, PeakMemoryIsMeasuredForEachImplementation) {
  AttentionCase one = tiny();
  one.seqlen_q = one.seqlen_k = 512;
  const std::vector<Row> alone = run(one, {"flash2"}, few(1));
  const std::vector<Row> together = run(one, {"standard", "flash2"}, few(1));
  EXPECT_EQ(alone[0].peak_bytes, together[1].peak_bytes);
  EXPECT_NE(together[0].peak_bytes, together[1].peak_bytes);
  EXPECT_EQ(*alone[0].peak_bytes, *make_implementation("flash2", {})->predicted_bytes(one));
}

// "Saved for backward" is the memory between the passes: the workspace is freed, dO and gradients are not yet
// allocated.
TEST(Runner, SavedForBackwardAreInputsAndOutputs) {
  AttentionCase one = tiny();
  one.seqlen_q = one.seqlen_k = 512;
  one.options.sinks = true;
  const TensorBytes bytes = tensor_bytes(one);
  for (const Row& row : run(one, {"standard", "flash2"}, few(1))) {
    EXPECT_EQ(row.saved_bytes.value_or(0), bytes.inputs() + bytes.o + bytes.lse + bytes.sinks) << row.implementation;
    EXPECT_DOUBLE_EQ(row_json(row, {}).at("memory_before_backward_bytes").as_number(),
                     static_cast<double>(*row.saved_bytes));
  }
  one.passes = Passes::forward;
  EXPECT_FALSE(run(one, {"flash2"}, few(1))[0].saved_bytes);
}

TEST(Runner, UntimedRegionsAreNull) {
  AttentionCase one = tiny();
  one.passes = Passes::forward;
  const Json forward = row_json(run(one, {"flash2"}, few(2))[0], {});
  EXPECT_TRUE(forward.at("backward").at("time(s)").is_null());
  EXPECT_TRUE(forward.at("forward_backward").at("FLOPS(TFLOPs/s)").is_null());
  EXPECT_GT(forward.at("forward").at("time(s)").as_number(), 0);
  one.passes = Passes::backward;
  const Json backward = row_json(run(one, {"flash2"}, few(2))[0], {});
  EXPECT_TRUE(backward.at("forward").at("time(s)").is_null());
  EXPECT_GT(backward.at("backward").at("time(s)").as_number(), 0);
}

TEST(Runner, JsonHasTheFormatOfTheSourceReports) {
  const AttentionCase one = tiny();
  const Row row = run(one, {"flash2"}, few(3))[0];
  const Json json = row_json(row, {.environment = Json::object(), .command = "strobe bench"});
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.as_object()) keys.push_back(key);
  const std::vector<std::string> first(keys.begin(), keys.begin() + 4);
  EXPECT_EQ(first, (std::vector<std::string>{"forward", "backward", "forward_backward", "peak_memory_usage(MB)"}));
  for (const char* region : {"forward", "backward", "forward_backward"}) {
    ASSERT_EQ(json.at(region).size(), 2u);
    EXPECT_EQ(json.at(region).as_object()[0].first, "time(s)");
    EXPECT_EQ(json.at(region).as_object()[1].first, "FLOPS(TFLOPs/s)");
  }
  const double forward = json.at("forward").at("time(s)").as_number();
  const double backward = json.at("backward").at("time(s)").as_number();
  EXPECT_DOUBLE_EQ(json.at("forward_backward").at("time(s)").as_number(), forward + backward);
  EXPECT_NEAR(json.at("forward").at("FLOPS(TFLOPs/s)").as_number(), forward_flops(one) / forward * 1e-12, 1e-12);
  EXPECT_EQ(json.at("statistics").at("forward_backward").at("n").as_integer(), 3);
  EXPECT_FALSE(json.at("config").at("causal").as_bool());
  EXPECT_TRUE(json.at("driver_memory_bytes").is_null());  // a CPU has no driver memory
  for (const char* key : {"implementation", "kernel", "environment", "command", "status"}) EXPECT_TRUE(json.find(key));
}

TEST(Runner, MemoryLimitGivesAnOomRowWithTheNearestCaseThatFits) {
  AttentionCase one = tiny();
  one.batch = 8;
  one.seqlen_q = one.seqlen_k = 256;
  RunOptions options = few(1);
  const std::int64_t whole = *make_implementation("flash2", {})->predicted_bytes(one);
  options.memory_limit = whole - 1;
  const std::vector<Row> rows = run(one, {"flash2"}, options);
  EXPECT_EQ(rows[0].status, Status::oom);
  EXPECT_EQ(*rows[0].asked, whole);
  EXPECT_EQ(*rows[0].free, whole - 1);
  EXPECT_NE(rows[0].reason.find("fits: --seq_len 255 (99.2 % of the work), --batch_size 7 (87.5 %), --num_heads "),
            std::string::npos)
      << rows[0].reason;
  EXPECT_TRUE(rows[0].forward.samples.empty());
}

TEST(Runner, ReportsThatTheTimeLimitEndedTheRun) {
  RunOptions options;
  options.rule.time_limit = 0.05;
  options.rule.interval = 0;  // no interval is narrow enough
  const std::vector<Row> rows = run(tiny(), {"flash2"}, options);
  EXPECT_EQ(rows[0].forward.stop, Stop::time_limit);
  EXPECT_GE(rows[0].forward.samples.size(), 3u);
  EXPECT_FALSE(notes_on(rows, options.rule).empty());
}

TEST(Runner, RejectsAnInvalidProblem) {
  AttentionCase one = tiny();
  one.seqlen_k = 41;
  one.causal = true;  // without an alignment
  EXPECT_THROW(run(one, {"flash2"}, few(1)), Error);
}

// The predicted memory of a PyTorch implementation is twice its tensors; torch-math adds the fp32 scores. The
// prediction is compared with the limit before the inputs are made.
TEST(Peer, MemoryLimitAppliesToPeersToo) {
  const test::FakePython python(R"(*\"prepare\"*) exit 9 ;;)");  // the test fails if a child prepares
  AttentionCase one = tiny();
  const TensorBytes bytes = tensor_bytes(one);
  const std::int64_t twice = 2 * (bytes.forward() + bytes.backward_extra());
  RunOptions options = few(1);
  options.memory_limit = twice - 1;
  const std::vector<Row> rows = run(one, {"torch-sdpa", "torch-math"}, options);
  EXPECT_EQ(rows[0].status, Status::oom) << rows[0].reason;
  EXPECT_EQ(rows[0].asked.value_or(0), twice);
  EXPECT_NE(rows[0].reason.find("fits: --seq_len 39 (95.1 % of the work), --num_heads 1 --emb_dim 16 (50 %)"),
            std::string::npos)
      << rows[0].reason;
  EXPECT_EQ(rows[1].asked.value_or(0), twice + 4 * one.heads * one.seqlen_q * one.seqlen_k);
  one.batch = std::int64_t{1} << 30;  // inputs of 20 TB would throw bad_alloc for all rows
  EXPECT_EQ(run(one, {"torch-sdpa"}, few(1))[0].status, Status::oom);
}

TEST(Peer, MissingInterpreterIsUnsupported) {
  const test::PythonScope none(std::nullopt);
  const std::vector<Row> rows = run(tiny(), {"flash2", "torch-sdpa"}, few(2));
  EXPECT_EQ(rows[0].status, Status::ok);
  EXPECT_EQ(rows[1].status, Status::unsupported);
  EXPECT_NE(rows[1].reason.find("/nonexistent/python"), std::string::npos) << rows[1].reason;
}

TEST(Peer, ARejectionIsUnsupportedWithItsReason) {
  const test::FakePython python(R"(*\"hello\"*) echo '{"ok":false,"status":"unsupported","reason":"no PyTorch"}' ;;)");
  const std::vector<Row> rows = run(tiny(), {"torch-sdpa", "torch-math"}, few(1));
  EXPECT_EQ(rows[0].status, Status::unsupported);
  EXPECT_EQ(rows[0].reason, "torch-sdpa: no PyTorch");
  EXPECT_EQ(rows[1].status, Status::unsupported);
  EXPECT_EQ(rows[1].reason, "torch-math: no PyTorch");
}

TEST(Peer, HangIsATimeout) {
  const test::FakePython python(R"(*\"time\"*) exec sleep 60 ;;)");
  const std::vector<Row> rows = run(tiny(), {"flash2", "torch-sdpa"}, few(2), 0.5);
  EXPECT_EQ(rows[0].status, Status::ok);
  EXPECT_EQ(rows[1].status, Status::timeout) << rows[1].reason;
}

TEST(Peer, DeathIsACrashWithTheSignalAndTheLastErrorLine) {
  const test::FakePython python(R"(*\"time\"*) echo 'fatal error' >&2; kill -SEGV $$ ;;)");
  const std::vector<Row> rows = run(tiny(), {"torch-sdpa", "flash2"}, few(2));
  EXPECT_EQ(rows[0].status, Status::crashed);
  EXPECT_NE(rows[0].reason.find("signal 11"), std::string::npos) << rows[0].reason;
  EXPECT_NE(rows[0].reason.find("fatal error"), std::string::npos) << rows[0].reason;
  EXPECT_EQ(rows[1].status, Status::ok);
}

TEST(Peer, OneChildServesAllPeers) {
  const test::FakePython python("*none*) ;;");
  RunOptions options = few(3);
  options.check = Check::off;
  for (const Row& row : run(tiny(), {"torch-sdpa", "torch-math", "torch-naive"}, options)) {
    EXPECT_EQ(row.status, Status::ok) << row.reason;
    EXPECT_EQ(row.forward.samples.size(), 3u);
  }
  EXPECT_EQ(python.starts(), 1);
}

// torch-math crashes in its second timed call, when all PyTorch implementations have been prepared in one process.
TEST(Peer, TheDeathOfOnePeerLeavesOtherRowsValid) {
  const test::FakePython python(
      R"(*\"time\"*torch-math*) [ -e "$0.called" ] && kill -SEGV $$; touch "$0.called"; echo '{"ok":true,"seconds":0.001}' ;;)");
  RunOptions options = few(3);
  options.check = Check::off;
  AttentionCase one = tiny();
  one.passes = Passes::forward;
  const std::vector<Row> rows = run(one, {"torch-sdpa", "torch-math", "torch-naive"}, options);
  EXPECT_EQ(rows[0].status, Status::ok) << rows[0].reason;
  EXPECT_EQ(rows[0].forward.samples.size(), 3u);
  EXPECT_EQ(rows[1].status, Status::crashed);
  EXPECT_NE(rows[1].reason.find("torch-math: "), std::string::npos) << rows[1].reason;
  EXPECT_NE(rows[1].reason.find("signal 11"), std::string::npos) << rows[1].reason;
  EXPECT_EQ(rows[2].status, Status::ok) << rows[2].reason;
  EXPECT_EQ(python.starts(), 2);
}

TEST(Peer, APythonThatReportsItselfUnusableIsRestarted) {
  const test::FakePython python(
      R"(*\"prepare\"*torch-math*) echo '{"ok":false,"status":"crashed","reason":"CUDA error","unusable":true}' ;;)");
  RunOptions options = few(3);
  options.check = Check::off;
  const std::vector<Row> rows = run(tiny(), {"torch-sdpa", "torch-math", "torch-naive"}, options);
  EXPECT_EQ(rows[0].status, Status::ok) << rows[0].reason;
  EXPECT_EQ(rows[1].status, Status::crashed);
  EXPECT_EQ(rows[1].reason, "torch-math: CUDA error");
  EXPECT_EQ(rows[2].status, Status::ok) << rows[2].reason;
  EXPECT_EQ(python.starts(), 2);
}

TEST(Peer, AnInvalidAnswerIsACrash) {
  const test::FakePython python(R"(*\"time\"*) echo 'Traceback (most recent call last)' ;;)");
  EXPECT_EQ(run(tiny(), {"torch-sdpa"}, few(2))[0].status, Status::crashed);
}

TEST(Peer, WrongResultsAreReported) {
  // Zeros are finite and have the right size, but are wrong.
  const test::FakePython zeros(R"(*\"results\"*) head -c 100000 /dev/zero >&3; echo '{"ok":true}' ;;)");
  const std::vector<Row> rows = run(tiny(), {"torch-sdpa"}, few(2));
  EXPECT_EQ(rows[0].status, Status::wrong);
  EXPECT_NE(rows[0].reason.find("O differs from"), std::string::npos) << rows[0].reason;
  EXPECT_TRUE(rows[0].forward.samples.empty());
}

TEST(Peer, UnwrittenOutputsAreWrong) {
  const test::FakePython silent("*none*) ;;");
  EXPECT_EQ(run(tiny(), {"torch-sdpa"}, few(2))[0].status, Status::wrong);
}

TEST(Peer, IsMeasuredByItsOwnClock) {
  const test::FakePython silent("*none*) ;;");
  RunOptions options = few(4);
  options.check = Check::off;
  const std::vector<Row> rows = run(tiny(), {"torch-sdpa"}, options);
  EXPECT_EQ(rows[0].status, Status::ok) << rows[0].reason;
  EXPECT_EQ(rows[0].forward.samples, std::vector<double>(4, 0.001));
  EXPECT_EQ(rows[0].configuration, "torch fake, python fake, backend fake");
  EXPECT_EQ(*rows[0].peak_bytes, 1048576);
}

TEST(Names, IgnoreCaseAndHaveAliases) {
  EXPECT_EQ(canonical_name("FLASH2"), "flash2");
  EXPECT_EQ(canonical_name("PyTorch"), "standard");
  EXPECT_EQ(canonical_name("torch-SDPA"), "torch-sdpa");
  EXPECT_EQ(canonical_name("cuDNN"), "cudnn");
  EXPECT_THROW(canonical_name("flash3"), Error);
  EXPECT_THROW(canonical_name(""), Error);
}

}  // namespace
}  // namespace strobe::bench
