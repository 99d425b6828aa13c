// Tests that rows of lm bench, comm, ladder and lm train are read as cells, and that their charts have tables.
#include "report/other_rows.h"

#include <gtest/gtest.h>

#include <fstream>

#include "report/cells.h"
#include "report/compare.h"
#include "report/figure.h"
#include "strobe/error.h"
#include "support/scratch.h"

namespace strobe::report {
namespace {

constexpr const char* kStep =
    R"({"schema": 2, "model": "tiny", "arch": "llama", "d_model": 64, "d_ff": 128, "layers": 1, "heads": 2,
        "vocabulary": 256, "context": 32, "batch": 4, "precision": "bf16", "recompute": "block", "pass": "step",
        "device": "cpu", "threads": 2, "attention": "auto", "clip": 0, "status": "ok", "flop": 4e9,
        "whole": {"mean_s": 0.5, "median_s": 0.4, "interval_s": [0.3, 0.6], "peak_bytes": 2097152}})";
constexpr const char* kParallelStep =
    R"({"schema": 2, "kind": "data parallel step", "strategy": "bucketed", "bucket_bytes": 25000000, "ranks": 2,
        "model": "tiny", "d_model": 64, "heads": 2, "context": 32, "batch": 4, "precision": "fp32",
        "recompute": "none", "device": "cpu", "threads_per_rank": 2, "status": "ok", "step": {"mean_s": 0.2, "median_s": 0.2}})";
constexpr const char* kCollective =
    R"({"kind": "collective", "schema": 2, "operation": "all-reduce", "engine": "mpi", "ranks": 2, "bytes": 1048576,
        "memory": "host", "status": "ok", "statistics": {"mean_s": 0.001, "samples_s": [0.001, 0.001]}})";
constexpr const char* kRung =
    R"({"kind": "rung", "rung": "shared", "device": "gpu", "case": {"name": "t28", "batch": 4, "rows": 128, "dim": 64},
        "flops": 1e9, "status": "ok", "seconds": 0.5, "statistics": {"mean_s": 0.5, "median_s": 0.5}})";

Result only(const std::string& text) {
  const std::vector<Result> results = parse_results(text, "a.json");
  EXPECT_EQ(results.size(), 1u);
  return results.at(0);
}

TEST(OtherRows, AStepOfAModel) {
  const Result step = only(kStep);
  EXPECT_EQ(step.implementation, "attention auto");
  EXPECT_EQ(describe(step.config), "tiny, context 32, batch 4, bf16, recompute block");
  ASSERT_TRUE(step.step);
  EXPECT_EQ(step.step->median, 0.4);
  EXPECT_EQ(step.step->low, 0.3);
  EXPECT_EQ(step.step->high, 0.6);
  EXPECT_EQ(step.step->flops(), 4e9);
  EXPECT_EQ(step.peak_mb, 2);
  const Result parallel = only(kParallelStep);
  EXPECT_EQ(parallel.implementation, "bucketed 25 MB, 2 ranks");
  EXPECT_EQ(parallel.step->median, 0.2);
}

TEST(OtherRows, AStepThatDoesNotFit) {
  Json row = Json::parse(kStep);
  row.set("status", "oom").set("error", "cannot allocate");
  const Result step = only(row.dump());
  EXPECT_EQ(step.status, "oom");
  EXPECT_EQ(step.reason, "cannot allocate");
}

TEST(OtherRows, CollectivesAndRungs) {
  const Result collective = only(kCollective);
  EXPECT_EQ(collective.implementation, "mpi");
  EXPECT_EQ(describe(collective.config), "all-reduce of 1.0 MiB, 2 ranks");
  EXPECT_EQ(collective.step->samples.size(), 2u);
  const Result rung = only(kRung);
  EXPECT_EQ(rung.implementation, "shared");
  EXPECT_EQ(describe(rung.config), "t28: 4 x 128 x 64");
  EXPECT_EQ(rung.forward->median, 0.5);
  Json refused = Json::parse(kRung);
  refused.set("status", "refused").set("reason", "no GPU");
  EXPECT_EQ(only(refused.dump()).status, "unsupported");
  EXPECT_TRUE(parse_results(R"({"kind": "tiles", "status": "ok"})", "a.json").empty()) << "no time of a rung";
}

TEST(OtherRows, AMissingKeyIsNamed) {
  for (const char* text : {R"({"model": "tiny", "context": 1})", R"({"kind": "collective"})", R"({"kind": "rung"})",
                           R"({"kind": "rung", "case": 3})", R"({"kind": "collective", "bytes": -1, "ranks": 2})"}) {
    EXPECT_THROW(parse_results(text, "a.json"), Error) << text;
  }
}

TEST(OtherRows, ChartsOfStepsHaveATable) {
  const std::vector<Cell> cells = cells_of(parse_results(std::string(kStep) + kParallelStep, "a.json"));
  int found = 0;
  for (const Figure& figure : make_figures(cells)) {
    if (figure.id != "step-time") continue;
    ++found;
    EXPECT_EQ(figure_csv(figure),
              "series,x,y\nattention auto,\"attention auto, bf16, recompute block\",400\n"
              "\"bucketed 25 MB, 2 ranks\",\"bucketed 25 MB, 2 ranks, fp32\",200\n");
    EXPECT_EQ(figure.view, "median of the steps, tiny, context 32, batch 4");
  }
  EXPECT_EQ(found, 1);
}

TEST(OtherRows, TrainingLogsAreComparedByTheTimesOfTheirSteps) {
  const test::Scratch scratch;
  const auto side = [&](const std::string& name, double seconds) {
    const std::string path = (scratch.path() / name).string();
    std::ofstream file(path);
    for (int i = 1; i <= 30; ++i) {
      file << R"({"step":)" << i << R"(,"loss":2,"lr":0.1,"seconds":)" << seconds + 1e-6 * i << R"(,"tokens":128})"
           << '\n';
    }
    file.close();
    return Side{name, read_results(path)};
  };
  const Comparison comparison = compare(side("a", 0.1), side("b", 0.2), 0.05);
  ASSERT_EQ(comparison.cells.size(), 1u);
  EXPECT_NEAR(comparison.cells[0].passes.at(0).ratio.value, 2, 0.01);
}

}  // namespace
}  // namespace strobe::report
