// Tests `strobe plan --bench` and `--check` with constructed rows of `strobe lm bench --ddp`. Their times follow from
// the constants below.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "cli/run_program.h"
#include "core/json.h"
#include "lm/models/parameters.h"
#include "lm/profile/step_bench.h"

namespace strobe::test {
namespace {

constexpr double kBytes = 2e9, kRound = 1e-5;   // bytes per second of a link; seconds per round of messages
constexpr double kFlops = 4e9, kMemory = 1e10;  // FLOP/s and bytes per second of a device
constexpr const char* kPlanCheck =
    "plan --machine here --flops 0.004 --mfu 1 --memory-bandwidth 10 --bandwidth 2 --latency 10 --check ";

lm::BenchCase small_case(std::int64_t batch) {
  lm::BenchCase one{.shape = lm::shape_of("tiny"), .batch = batch};
  one.shape.context = 16;
  return one;
}

const double kGradients = 4 * static_cast<double>(lm::parameter_count(small_case(1).shape));

Json times(double seconds) { return Json::object({{"median(ms)", 1e3 * seconds}}); }

struct ExchangeTimes {
  const char* strategy;
  int buckets, ranks;
  double exposed, update;  // seconds
};

// Returns a row with batch 4 over all ranks. Forward and backward follow from the FLOP rate and a rank's share.
Json parallel_row(const ExchangeTimes& exchange) {
  const double flops = lm::flops_of(small_case(4 / exchange.ranks)), compute = flops / kFlops;
  Json row = Json::object({{"kind", "data parallel step"},
                           {"strategy", exchange.strategy},
                           {"ranks", exchange.ranks},
                           {"size", "tiny"},
                           {"arch", "llama"},
                           {"parameters", lm::parameter_count(small_case(1).shape)},
                           {"context", 16},
                           {"batch", 4},
                           {"precision", "fp32"},
                           {"recompute", "none"},
                           {"device", "cuda"},
                           {"threads of a rank", 1},
                           {"status", "ok"},
                           {"step", times(compute + exchange.update + exchange.exposed)},
                           {"part forward", times(compute / 3)},
                           {"part backward", times(2 * compute / 3)},
                           {"part exposed", Json::object({{"median(ms)", 1e3 * exchange.exposed}})},
                           {"part optimizer", times(exchange.update)},
                           {"buckets", exchange.buckets}});
  if (exchange.buckets == 5) row.set("bucket(MB)", 1);
  return row;
}

Json file_of(std::initializer_list<ExchangeTimes> exchanges) {
  Json rows = Json::array();
  for (const ExchangeTimes& one : exchanges) rows.push_back(parallel_row(one));
  return Json::object({{"rows", std::move(rows)}});
}

void put_json(const Scratch& scratch, const char* name, const Json& json) {
  std::ofstream(scratch.path() / name) << json.dump();
}

// Seconds of collectives on two ranks. An all-reduce sends all bytes of the vector in two rounds, an all-gather or a
// reduce-scatter sends half of the bytes in one round.
double all_reduce(double bytes) { return 2 * kRound + bytes / kBytes; }
double half_exchange(double bytes) { return kRound + 0.5 * bytes / kBytes; }

TEST(PlanSteps, EveryStrategyIsPredictedFromItsCallsAndTheirStartTimes) {
  const double update = 7 * kGradients / kMemory, bucket = kGradients / 5;
  const lm::ModelShape shape = small_case(1).shape;
  const auto embedding = 4 * static_cast<double>(shape.vocabulary * shape.d_model);
  const Scratch scratch;
  put_json(scratch, "ddp.json",
           file_of({{"one process", 0, 1, 0, update},
                    {"naive", 39, 2, 39 * all_reduce(kGradients / 39), update},
                    {"flat", 1, 2, all_reduce(kGradients), update},
                    {"overlap", 39, 2, all_reduce(embedding), update},  // long backward: one call is exposed
                    {"bucketed", 5, 2, all_reduce(bucket), update},
                    {"sharded", 1, 2, all_reduce(kGradients) + half_exchange(kGradients), update / 2},
                    {"sharded-overlap", 5, 2, all_reduce(bucket) + 5 * half_exchange(bucket), update / 2},
                    {"sharded-rs", 5, 2, 6 * half_exchange(bucket), update / 2}}));
  const Program program = run_program(std::string(kPlanCheck) + "ddp.json", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  for (const char* const says :
       {"tiny, context 16, batch 4, fp32, one process ", "tiny, context 16, batch 4, fp32, naive, 2 ranks ",
        "tiny, context 16, batch 4, fp32, bucketed of 1 MB, 2 ranks ",
        "forward ms: median error 0.0 % of 8, at most 0.0 %", "backward ms: median error 0.0 % of 8, at most 0.0 %",
        "update ms: median error 0.0 % of 8, at most 0.0 %", "exposed ms: median error 0.0 % of 7, at most 0.0 %",
        "step ms: median error 0.0 % of 8, at most 0.0 %"}) {
    EXPECT_NE(program.output.find(says), std::string::npos) << says << "\n" << program.output;
  }
  EXPECT_EQ(program.output.find("memory MiB"), std::string::npos)
      << "the plan does not predict the memory of a GPU here";
}

// A rank stores its share of the optimizer state. sharded-rs stores gradients twice, which plans do not model.
TEST(PlanSteps, MemoryOfARankIncludesItsShare) {
  const auto held = [](const char* strategy, double moments) {
    Json row = parallel_row({strategy, 1, 2, 1, 1});
    const double rest = 1e6;
    return row.set("device", "cpu").set("memory", Json::object({{"after_step(B)", rest + moments}}));
  };
  const Scratch scratch;
  put_json(scratch, "ddp.json",
           Json::object({{"rows", Json::array({held("flat", 2 * kGradients), held("sharded", kGradients),
                                               held("sharded-rs", kGradients)})}}));
  const Program program = run_program(std::string(kPlanCheck) + "ddp.json", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("% of 2, "), std::string::npos) << program.output;
  const auto predicted = [&](const char* strategy) {
    const std::size_t row = program.output.find(strategy), line = program.output.find("memory MiB", row);
    double measured = 0, mebibytes = 0;
    EXPECT_EQ(std::sscanf(program.output.c_str() + line, "memory MiB %lf %lf", &measured, &mebibytes), 2);
    return mebibytes;
  };
  EXPECT_NEAR(predicted("flat, 2 ranks") - predicted("sharded, 2 ranks"), kGradients / (1 << 20), 0.1);
}

// The device's rates come from the row `one process`: several ranks share the device, so their times do not measure it.
TEST(PlanSteps, RatesComeFromOneProcess) {
  const Scratch scratch;
  put_json(scratch, "ddp.json", file_of({{"one process", 0, 1, 0, 7 * kGradients / kMemory}, {"naive", 39, 2, 1, 1}}));
  const Program program =
      run_program("plan --machine here --bandwidth 2 --latency 10 --bench ddp.json --check ddp.json", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("device in fp32: 4.00 GFLOP/s, the median of 1 row of lm bench; memory 10.0 GB/s"),
            std::string::npos)
      << program.output;
}

TEST(PlanSteps, ImpossibleRowsAreRejectedInOneLine) {
  const ExchangeTimes fine{"naive", 39, 2, 1, 1};
  const auto with = [&](const char* key, const Json& value) { return parallel_row(fine).set(key, value); };
  const struct {
    Json row;
    const char* says;
  } cases[] = {
      {with("batch", 3), "ddp.json, line 1: batch 3 on 2 ranks; valid: a multiple of the ranks"},
      {with("strategy", "ring"), "ddp.json, line 1: data parallel strategy ring; valid: naive, flat, overlap"},
      {with("ranks", 0), "ddp.json, line 1: ranks 0; valid: 1 to 1048576"},
      {with("buckets", 0), "ddp.json, line 1: buckets 0; valid: 1 to 1048576"},
      {with("threads of a rank", 0), "ddp.json, line 1: threads_per_rank 0; valid: 1 to "},
      {with("part exposed", times(-0.001)), "ddp.json, line 1: median_s is -0.001; valid: 1e-12 to 1e+09 seconds"},
  };
  const Scratch scratch;
  for (const auto& [row, says] : cases) {
    put_json(scratch, "ddp.json", row);
    const Program program = run_program(fmt::format("{}ddp.json", kPlanCheck), scratch);
    EXPECT_EQ(program.code, 2) << says;
    EXPECT_EQ(program.errors.substr(0, 8 + std::string(says).size()), std::string("strobe: ") + says);
    EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << program.errors;
    EXPECT_EQ(program.output, "");
  }
}

}  // namespace
}  // namespace strobe::test
