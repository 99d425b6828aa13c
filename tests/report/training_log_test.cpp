// Tests the reader, the charts and the CSV files of training logs.
#include "report/training_log.h"

#include <gtest/gtest.h>

#include <fstream>

#include "report/rows.h"
#include "strobe/error.h"
#include "support/scratch.h"

namespace strobe::report {
namespace {

constexpr const char* kLog =
    "{\"step\":1,\"loss\":6.0,\"gradient_norm\":3.7,\"lr\":0.0008,\"seconds\":0.5,\"tokens\":1024}\n"
    "{\"step\":2,\"loss\":null,\"skipped\":true}\n"
    "{\"step\":2,\"validation_loss\":5.5,\"perplexity\":244.7}\n"
    "{\"step\":3,\"loss\":4.5,\"gradient_norm\":2.7,\"lr\":0.0001,\"seconds\":0.25,\"tokens\":1024}\n";

TEST(TrainingLog, HasLossLearningRateAndTokens) {
  const TrainingLog log = parse_training_log(kLog, "run");
  const std::vector<Figure> figures = training_figures({&log, 1});
  ASSERT_EQ(figures.size(), 3u);
  ASSERT_EQ(figures[0].series.size(), 2u);
  EXPECT_EQ(figures[0].series[0].points.at(1).x, 3);
  EXPECT_EQ(figures[0].series[0].points.at(1).y, 4.5);
  EXPECT_EQ(figures[0].series[1].name, "run, validation");
  EXPECT_EQ(figures[0].series[1].points.at(0).y, 5.5);
  EXPECT_EQ(figures[1].series.at(0).points.at(0).y, 0.0008);
  EXPECT_EQ(figures[2].series.at(0).points.at(1).y, 4096);
}

TEST(TrainingLog, EachChartHasItsCsv) {
  const TrainingLog log = parse_training_log(kLog, "run");
  const auto tables = training_tables({&log, 1});
  ASSERT_EQ(tables.size(), 3u);
  EXPECT_EQ(tables[0].first, "loss.csv");
  EXPECT_NE(tables[0].second.find("log,step,loss,validation_loss\n"), std::string::npos);
  EXPECT_NE(tables[0].second.find(",1,6,\n"), std::string::npos) << tables[0].second;
  EXPECT_NE(tables[0].second.find(",2,,5.5\n"), std::string::npos) << tables[0].second;
  EXPECT_NE(tables[2].second.find(",3,4096\n"), std::string::npos) << tables[2].second;
}

TEST(TrainingLog, ALongLogIsDrawnAsMeans) {
  std::string text;
  for (int step = 1; step <= 1200; ++step) text += fmt::format("{{\"step\":{},\"loss\":{}}}\n", step, step % 2 ? 1 : 3);
  const TrainingLog log = parse_training_log(text, "run");
  const std::vector<Figure> figures = training_figures({&log, 1});
  ASSERT_EQ(figures.size(), 1u);  // no learning rate and no times
  EXPECT_EQ(figures[0].series.at(0).points.size(), 600u);
  EXPECT_EQ(figures[0].series[0].points[0].y, 2);
  EXPECT_EQ(figures[0].caption, "each point is the mean of up to 2 steps");
}

TEST(TrainingLog, IsRecognizedByItsFirstRow) {
  const test::Scratch scratch;
  const std::string log = scratch.path() / "steps.jsonl", rows = scratch.path() / "rows.jsonl";
  std::ofstream(log) << kLog << "{\"step\":4,\"lo";
  std::ofstream(rows) << test::row_text({});
  EXPECT_TRUE(is_training_log(log));
  EXPECT_EQ(read_training_log(log).steps.size(), 3u);  // the last line is incomplete
  EXPECT_FALSE(is_training_log(rows));
  EXPECT_FALSE(is_training_log(scratch.path().string()));
  EXPECT_FALSE(is_training_log("absent"));
}

TEST(TrainingLog, AnErrorNamesTheLine) {
  const auto error_of = [](const std::string& text) {
    try {
      parse_training_log(text, "f");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(error_of("{\"step\":1,\"loss\":1}\n{\"loss\":1}\n"), "f, line 2: no \"step\": not a row of a log");
  EXPECT_NE(error_of("{\"step\":1,\"loss\":\"x\"}\n").find("f, line 1: loss is"), std::string::npos);
  EXPECT_NE(error_of("{\"step\":1,\"loss\":1e300}\n").find("f, line 1: loss is 1e+300; valid: "), std::string::npos);
}

}  // namespace
}  // namespace strobe::report
