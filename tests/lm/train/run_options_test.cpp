// Tests run.json, the file of a training run's options: writing, reading and rejected values.
#include "lm/train/run_options.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "strobe/error.h"
#include "support/corpus.h"
#include "support/fuzz_run_file.h"
#include "support/scratch.h"

namespace strobe::lm {
namespace {

class RunOptionsTest : public testing::Test {
 protected:
  std::string path() const { return (scratch_.path() / "run.json").string(); }

  void expect_refusal(const std::string& contents, const std::string& part) {
    std::ofstream(path()) << contents;
    try {
      read_run_options(path());
      ADD_FAILURE() << contents;
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << what;
      EXPECT_EQ(what.find(path() + ": is damaged: "), 0u) << what;
      EXPECT_NE(what.find(part), std::string::npos) << what;
      EXPECT_NE(what.find("; remove it and give "), std::string::npos) << what;
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    }
  }

  test::Scratch scratch_;
};

Settings unusual_settings() {
  Settings settings;
  settings.shape = shape_of("tiny");
  settings.seed = 7;
  settings.precision = Precision::bf16;
  return settings;
}

const RunOptions kUnusual = {.checkpoint_every = 7,
                             .keep = 0,
                             .validation = "a \"b\".txt",
                             .validation_every = 5,
                             .validation_tokens = 2,
                             .job = "0123abcd",
                             .settings = unusual_settings()};

TEST_F(RunOptionsTest, IsReadAsItWasWritten) {
  write_run_options(path(), kUnusual);
  EXPECT_EQ(read_run_options(path()), kUnusual);
  write_run_options(path(), {});
  EXPECT_EQ(read_run_options(path()), RunOptions{});
  EXPECT_EQ(scratch_.entries(), 1u) << "no temporary file is left";
}

// Without a job, the file has the format of versions that did not support jobs.
TEST_F(RunOptionsTest, DoesNotMentionAJobIfThereIsNone) {
  RunOptions run_options = kUnusual;
  run_options.job.clear();
  write_run_options(path(), run_options);
  EXPECT_EQ(scratch_.read("run.json").find("job"), std::string::npos);
  EXPECT_EQ(read_run_options(path()), run_options);
}

TEST_F(RunOptionsTest, IsTheDefaultIfTheFileIsMissing) { EXPECT_EQ(read_run_options(path()), RunOptions{}); }

TEST_F(RunOptionsTest, DamageIsNamedWithTheRemedy) {
  write_run_options(path(), kUnusual);
  const std::string whole = scratch_.read("run.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    return text.replace(text.find(from), from.size(), to);
  };
  expect_refusal("", "");
  expect_refusal(whole.substr(0, whole.size() / 2), "");
  expect_refusal(whole + whole, "");
  expect_refusal("[]", "");
  expect_refusal(with("keep", "kept"), "\"keep\"");
  expect_refusal(with("\"val_tokens\":2", "\"val_tokens\":-1"), "val_tokens -1: valid: 0 to 9223372036854775807");
  expect_refusal(with("\"keep\":0", "\"keep\":-1"), "keep -1: valid: 0 to 100000000");
  expect_refusal(with("\"keep\":0", "\"keep\":\"all\""), "");
  expect_refusal(with("\"0123abcd\"", "7"), "");
}

TEST_F(RunOptionsTest, UnreadableFilesAreNamed) {
  std::filesystem::create_directory(path());
  try {
    read_run_options(path());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), path() + ": is a folder; valid: a regular file");
  }
}

TEST(RunFileFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"job", "old", "plain"};
  EXPECT_EQ(test::accepted_seeds("run_file", test::fuzz_run_file), valid);
}

TEST(RunFileFuzz, MutationsAreRejectedOrValid) {
  EXPECT_GT(test::accepted_json_mutations("run_file", 2000, test::fuzz_run_file), 20);
}

}  // namespace
}  // namespace strobe::lm
