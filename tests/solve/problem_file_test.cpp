// Tests solve/problem_file: invalid problems are rejected with their values, and an answer is written atomically.
#include "solve/problem_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "strobe/error.h"
#include "support/corpus.h"
#include "support/fuzz_problem_file.h"
#include "support/scratch.h"

namespace strobe::solve {
namespace {

class ProblemFileTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::vector<std::int32_t>& header, std::size_t floats) const {
    std::ofstream file(scratch_.path() / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(header.data()), static_cast<std::streamsize>(header.size() * 4));
    for (std::size_t i = 0; i < floats; ++i) {
      const auto value = static_cast<float>(i);
      file.write(reinterpret_cast<const char*>(&value), 4);
    }
    return path(name);
  }
  std::string path(const std::string& name) const { return (scratch_.path() / name).string(); }

  // Returns the text of the error, whose code must be that of bad input.
  static std::string refusal(const std::string& path) {
    try {
      const ProblemFile problem(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    return "";
  }

  const test::Scratch scratch_;
};

#define EXPECT_SAYS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

TEST_F(ProblemFileTest, GivesSizeAndTensorsOfEachBatch) {
  const ProblemFile problem(write("in", {2, 3, 4}, 72));
  EXPECT_EQ(problem.size(), (ProblemSize{2, 3, 4}));
  EXPECT_EQ(*problem.q(0), 0.0f);
  EXPECT_EQ(*problem.k(0), 12.0f);
  EXPECT_EQ(*problem.v(0), 24.0f);
  EXPECT_EQ(*problem.q(1), 36.0f);
  EXPECT_EQ(problem.v(1)[11], 71.0f);
}

TEST_F(ProblemFileTest, LoadedUnloadedAndReadDataAreEqual) {
  const ProblemFile problem(write("in", {3, 40, 16}, 3 * 3 * 640));
  problem.load(0, 3);
  EXPECT_EQ(problem.v(2)[639], 5759.0f);
  problem.unload(0, 2);
  EXPECT_EQ(*problem.k(1), 2560.0f);
  std::vector<float> values(100);
  problem.read(1, 640, 100, values.data());
  EXPECT_EQ(std::memcmp(values.data(), problem.k(1), 400), 0);
}

TEST_F(ProblemFileTest, ReadReportsATruncatedFile) {
  const ProblemFile problem(write("in", {1, 64, 64}, 3 * 4096));
  ASSERT_EQ(truncate(path("in").c_str(), 100), 0);
  std::vector<float> values(4096);
  EXPECT_THROW(problem.read(0, 0, 4096, values.data()), Error);
}

TEST_F(ProblemFileTest, RejectsLengthsThatDifferFromTheHeader) {
  EXPECT_SAYS(refusal(write("few", {2, 3, 4}, 71)), "= 300 bytes; the file has 296, 4 too few");
  EXPECT_SAYS(refusal(write("many", {2, 3, 4}, 73)), "= 300 bytes; the file has 304, 4 too many");
  std::ofstream(path("many"), std::ios::app) << "x";
  EXPECT_SAYS(refusal(path("many")), "5 too many");
  EXPECT_SAYS(refusal(write("header", {2, 3}, 0)), "has 8 bytes, too few for its header of 12");
  EXPECT_SAYS(refusal(write("empty", {}, 0)), "has 0 bytes");
}

TEST_F(ProblemFileTest, RejectsSizesBelowOneAndBeyondAnyFile) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  EXPECT_SAYS(refusal(write("a", {0, 3, 4}, 0)), "(0, 3, 4); each must be at least 1");
  EXPECT_SAYS(refusal(write("b", {2, -3, 4}, 0)), "(2, -3, 4); each must be at least 1");
  EXPECT_SAYS(refusal(write("c", {kLeast, kLeast, 4}, 0)), "each must be at least 1");
  EXPECT_SAYS(refusal(write("d", {kMost, kMost, kMost}, 9)), "more than any file holds; the file has 48 bytes");
  // B N d = 2^30 * 2^30 * 4 = 2^62 fits in 64 bits. Without a check, 12 times that wraps to 0.
  EXPECT_SAYS(refusal(write("e", {1 << 30, 1 << 30, 4}, 0)), "more than any file holds; the file has 12 bytes");
  EXPECT_SAYS(refusal(write("f", {1 << 30, 1 << 20, 64}, 0)), "too few");
}

TEST_F(ProblemFileTest, RejectsFilesThatAreNotRegular) {
  EXPECT_SAYS(refusal(scratch_.path().string()), "is a folder");
  EXPECT_SAYS(refusal(path("missing")), "No such file");
  EXPECT_SAYS(refusal(""), "cannot be read");
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_SAYS(refusal(path("pipe")), "is not a regular file");
  write("closed", {1, 1, 1}, 3);
  std::filesystem::permissions(path("closed"), std::filesystem::perms::none);
  if (geteuid() == 0) return;  // root can read every file
  EXPECT_SAYS(refusal(path("closed")), "Permission denied");
}

TEST_F(ProblemFileTest, AnswerAppearsOnlyOnCommit) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  AnswerFile answer(path("out"), {1, 2, 3});
  answer.write(values.data(), 4);
  EXPECT_THROW(answer.commit(), Error);
  EXPECT_THROW(answer.write(values.data(), 3), Error);
  EXPECT_FALSE(std::filesystem::exists(path("out")));
  answer.write(values.data() + 4, 2);
  answer.commit();
  const std::string bytes = scratch_.read("out");
  ASSERT_EQ(bytes.size(), 24u);
  EXPECT_EQ(std::memcmp(bytes.data(), values.data(), 24), 0);
  EXPECT_EQ(scratch_.entries(), 1u);
}

TEST_F(ProblemFileTest, NothingIsLeftOfAnUnfinishedAnswer) {
  {
    AnswerFile answer(path("out"), {1, 1, 2});
    const float value = 1;
    answer.write(&value, 1);
  }
  EXPECT_EQ(scratch_.entries(), 0u);
}

TEST_F(ProblemFileTest, AnswersThatCannotBeWrittenAreRejected) {
  try {
    const AnswerFile answer(path("missing/out"), {1, 1, 1});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  }
  try {
    const AnswerFile answer(path("out"), {1 << 20, 1 << 20, 1 << 20});  // 2^60 floats: 4 EiB
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::runtime);
    EXPECT_SAYS(error.what(), "needs 4611686018427387904 bytes");
  }
  EXPECT_EQ(scratch_.entries(), 0u);
  AnswerFile full("/dev/full", {1, 1, 1});
  const float value = 1;
  try {
    full.write(&value, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::runtime);
    EXPECT_SAYS(error.what(), "No space left");
  }
}

// Replays the seeds of the fuzz harness.
TEST(ProblemFileFuzz, OnlyCompleteSeedsAreAccepted) {
  EXPECT_GE(test::corpus("problem_file").size(), 13u);
  EXPECT_EQ(test::accepted_seeds("problem_file", test::fuzz_problem_file), (std::vector<std::string>{"one", "small"}));
}

TEST(ProblemFileFuzz, MutationsAreRejectedOrComplete) {
  const std::map<std::string, test::Bytes> files = test::corpus("problem_file");
  std::mt19937 random(7);
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random()) % limit; };
  constexpr std::uint8_t kBytes[] = {0x00, 0x01, 0x02, 0x03, 0x04, 0x7f, 0x80, 0xff};
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    test::Bytes bytes = std::next(files.begin(), static_cast<std::ptrdiff_t>(below(files.size())))->second;
    for (std::size_t change = below(4); change > 0; --change) {
      if (below(4) == 0) bytes.resize(below(2) ? below(64) : 12 * (1 + below(30)));
      if (!bytes.empty()) bytes[below(std::min<std::size_t>(bytes.size(), 12))] = kBytes[below(8)];
    }
    taken += test::fuzz_problem_file(bytes.data(), bytes.size()) ? 1 : 0;
  }
  EXPECT_GT(taken, 100);  // many mutations remain valid
}

}  // namespace
}  // namespace strobe::solve
