// Tests steps.jsonl, the log of a training run: its rows, an incomplete last line, and damaged logs.
#include "lm/train/step_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "strobe/error.h"
#include "support/corpus.h"
#include "support/fuzz_step_log.h"
#include "support/scratch.h"

namespace strobe::lm {
namespace {

class StepLogTest : public testing::Test {
 protected:
  static Json row(int step) { return Json::object({{"step", step}}); }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  std::string read() const { return scratch_.read("steps.jsonl"); }

  void expect_refusal(const std::string& text, const std::string& part) const {
    write(text);
    for (const bool only_check : {true, false}) {
      try {
        only_check ? check_step_log(path_) : static_cast<void>(StepLog(path_, 3));
        ADD_FAILURE() << text;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
      }
      EXPECT_EQ(read(), text);
    }
  }

  const test::Scratch scratch_;
  const std::string path_ = (scratch_.path() / "steps.jsonl").string();
};

TEST_F(StepLogTest, RemovesLaterStepsAndATornLine) {
  {
    StepLog log(path_, 0);
    for (const int step : {1, 2, 2, 3}) log.append(row(step));
    log.sync();
  }
  const std::string whole = "{\"step\":1}\n{\"step\":2}\n{\"step\":2}\n{\"step\":3}\n";
  std::ofstream(path_, std::ios::app) << "{\"step\":";
  { StepLog log(path_, 3); }
  EXPECT_EQ(read(), whole);
  StepLog(path_, 2).append(row(3));
  EXPECT_EQ(read(), whole);
  { StepLog log(path_, 0); }
  EXPECT_EQ(read(), "");
  EXPECT_THROW(StepLog((scratch_.path() / "no" / "folder").string(), 0), Error);
}

TEST_F(StepLogTest, DamageIsRejectedAndNothingIsCut) {
  expect_refusal("{\"step\":1}\n{\"step\";2}\n{\"step\":3}\n", "steps.jsonl: line 2 is damaged: ");
  expect_refusal("{\"step\":1}\n{\"stop\":2}\n", "; repair it, or move the file away to resume without its rows");
  expect_refusal("{\"step\":1}\n{\"step\":9}\n{\"step\":3}\n", "line 3 is damaged: step 3 follows step 9");
  expect_refusal("{\"step\":1}\n{\"step\":4}\n\n", "line 3");  // damage after the last kept row is an error too
  expect_refusal("{\"step\":1}\n{\"step\":\"2\"}\n", "line 2");
  expect_refusal("{\"step\":-1}\n", "line 1 is damaged: step -1 follows step 0");
  expect_refusal("notes without an end of line", "is not a file of rows");
}

TEST_F(StepLogTest, EveryFlippedBitIsRejectedOrKeepsTheOtherRows) {
  std::string whole;
  for (int step = 1; step <= 4; ++step) whole += row(step).dump() + "\n";
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string text = whole;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    try {
      const std::size_t kept = kept_log_bytes(text, 4, "x");
      const bool in_last_row = bit / 8 >= whole.size() - row(4).dump().size() - 1;
      EXPECT_TRUE(kept == whole.size() || in_last_row) << text;
    } catch (const Error&) {
    }
  }
}

TEST_F(StepLogTest, LinksAndFifosAreRejectedAtOnce) {
  std::ofstream(scratch_.path() / "victim") << "{\"step\":9}\n";
  std::filesystem::create_symlink("victim", path_);
  EXPECT_THROW(StepLog(path_, 0), Error);
  EXPECT_THROW(check_step_log(path_), Error);
  EXPECT_EQ(scratch_.read("victim"), "{\"step\":9}\n");
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0666), 0);
  EXPECT_THROW(StepLog(path_, 0), Error);
  EXPECT_THROW(check_step_log(path_), Error);
  std::filesystem::remove(path_);
  EXPECT_NO_THROW(check_step_log(path_));
}

TEST(StepLogFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"empty", "resumed_earlier", "skipped", "torn", "whole"};
  EXPECT_EQ(test::accepted_seeds("step_log", test::fuzz_step_log), valid);
}

}  // namespace
}  // namespace strobe::lm
