// Tests the course's 30 cases, their files, and the comparison of answers.
#include "solve/cases.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "solve/case_files.h"
#include "solve/compare_answers.h"
#include "strobe/error.h"
#include "support/scratch.h"

namespace strobe::solve {
namespace {

std::string names_of(const std::vector<TestCase>& cases) {
  std::string names;
  for (const TestCase& one : cases) names += one.name + " ";
  return names;
}

TEST(Cases, SizesAreThoseOfTheCourse) {
  const std::vector<TestCase> cases = all_cases();
  ASSERT_EQ(cases.size(), 30u);
  EXPECT_EQ(cases[0].name, "t01");
  EXPECT_EQ(cases[0].size, (ProblemSize{320, 128, 32}));
  EXPECT_EQ(cases[7].size, (ProblemSize{20, 1024, 64}));
  EXPECT_EQ(cases[11].size, (ProblemSize{9600, 128, 64}));
  EXPECT_EQ(cases[21].size, (ProblemSize{500, 2048, 64}));
  EXPECT_EQ(cases[29].size, (ProblemSize{2, 32768, 64}));
  EXPECT_EQ(cases[9].group, 0);
  EXPECT_EQ(cases[10].group, 1);
  EXPECT_EQ(cases[20].group, 2);
  std::int64_t checksum = 0;  // sum of B N d / 32 over all cases
  for (const TestCase& one : cases) checksum += one.size.batch * one.size.rows * (one.size.dim / 32);
  EXPECT_EQ(checksum, 16'838'656);
}

TEST(Cases, SubsetsAreListsAndRanges) {
  EXPECT_EQ(names_of(select_cases(all_cases(), "t05")), "t05 ");
  EXPECT_EQ(names_of(select_cases(all_cases(), "t28-t30,t01,t01")), "t01 t28 t29 t30 ");
  for (const char* wrong : {"", "t31", "t1", "t01,", "t05-", "t05-t03", "t01 t02", "-"}) {
    EXPECT_THROW(select_cases(all_cases(), wrong), Error) << wrong;
  }
}

TEST(Cases, ScaleKeepsTheHeadDimension) {
  EXPECT_EQ(scaled({320, 128, 32}, 0.25), (ProblemSize{80, 32, 32}));
  EXPECT_EQ(scaled({2, 32768, 64}, 0.001), (ProblemSize{1, 33, 64}));
  EXPECT_EQ(scaled({20, 1024, 64}, 1), (ProblemSize{20, 1024, 64}));
}

TEST(CaseFiles, ValuesAreUniformAndIndependentOfChunks) {
  std::vector<float> all(100'000), piece(1000);
  uniform_values(1, 0, 100'000, all.data());
  uniform_values(1, 777, 1000, piece.data());
  EXPECT_EQ(std::memcmp(piece.data(), all.data() + 777, 4000), 0);
  double sum = 0;
  for (const float value : all) sum += value;
  EXPECT_NEAR(sum / 1e5, 0, 0.03);
  EXPECT_LT(*std::min_element(all.begin(), all.end()), -2.99f);
  EXPECT_GE(*std::min_element(all.begin(), all.end()), -3.0f);
  EXPECT_GT(*std::max_element(all.begin(), all.end()), 2.99f);
  EXPECT_LT(*std::max_element(all.begin(), all.end()), 3.0f);
  uniform_values(2, 0, 1000, piece.data());
  EXPECT_NE(piece[0], all[0]);
}

TEST(CaseFiles, AreMadeOncePerSeedAndSize) {
  const test::Scratch scratch;
  const TestCase one{"t01", 0, {5, 30, 8}};
  EXPECT_EQ(make_case(scratch.path(), one, 1), Made::now);
  EXPECT_EQ(make_case(scratch.path(), one, 1), Made::before);
  EXPECT_EQ(scratch.entries(), 3u);  // problem, answer and cases.json
  const std::string first = scratch.read("t01");
  EXPECT_EQ(first.size(), 12u + 12 * 5 * 30 * 8);

  const ProblemFile problem((scratch.path() / "t01").string());
  EXPECT_EQ(problem.size(), one.size);
  std::vector<float> answer(5 * 30 * 8);
  float64_forward(one.size, problem.q(0), answer.data());
  const std::string stored = scratch.read("t01.out");
  ASSERT_EQ(stored.size(), answer.size() * 4);
  EXPECT_EQ(std::memcmp(stored.data(), answer.data(), stored.size()), 0);

  EXPECT_EQ(make_case(scratch.path(), one, 2), Made::now);
  EXPECT_NE(scratch.read("t01"), first);
  EXPECT_EQ(make_case(scratch.path(), {"t01", 0, {5, 31, 8}}, 2), Made::now);
  EXPECT_EQ(make_case(scratch.path(), one, 1), Made::now);
  EXPECT_EQ(scratch.read("t01"), first);

  std::filesystem::resize_file(scratch.path() / "t01.out", 100);
  EXPECT_EQ(make_case(scratch.path(), one, 1), Made::now);
  std::filesystem::remove(scratch.path() / "t01");
  EXPECT_EQ(make_case(scratch.path(), one, 1), Made::now);
  std::ofstream(scratch.path() / "cases.json") << "";  // as truncated by a crash
  EXPECT_EQ(make_case(scratch.path(), one, 1), Made::now);
  EXPECT_EQ(make_case(scratch.path(), one, 1), Made::before);
}

class CompareAnswers : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::vector<float>& values) const {
    std::ofstream file(scratch_.path() / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * 4));
    return (scratch_.path() / name).string();
  }
  Comparison compare(const std::vector<float>& output, const std::vector<float>& answer) const {
    return compare_answers(write("out", output), write("answer", answer), kTolerance);
  }
  const test::Scratch scratch_;
};

TEST_F(CompareAnswers, ToleranceIsAbsolute) {
  EXPECT_TRUE(compare({1.0f, 2.004f, -3.0f}, {1.0f, 2.0f, -3.0049f}).passes());
  const Comparison wrong = compare({1.0f, 2.006f, -3.0f}, {1.0f, 2.0f, -3.0f});
  EXPECT_FALSE(wrong.passes());
  EXPECT_EQ(wrong.count(), 3);
  EXPECT_EQ(wrong.mismatches, 1);
  EXPECT_NEAR(wrong.largest, 0.006, 1e-6);
  ASSERT_EQ(wrong.first.size(), 1u);
  EXPECT_EQ(wrong.first[0].index, 1);
}

TEST_F(CompareAnswers, NonFiniteValuesFail) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(compare({nan}, {1}).passes());
  EXPECT_FALSE(compare({1}, {nan}).passes());
  EXPECT_FALSE(compare({nan}, {nan}).passes());
  EXPECT_FALSE(compare({infinity}, {1}).passes());
  EXPECT_EQ(compare({nan}, {1}).largest, std::numeric_limits<double>::infinity());
}

// The comparison uses the answer that was read, even if its file has changed since.
TEST_F(CompareAnswers, UsesTheAnswerThatWasReadBefore) {
  const std::vector<float> answer = read_answer(write("answer", {1, 2, 3}));
  write("answer", {9, 9, 9});
  const auto compare_to = [&](const std::vector<float>& output) {
    const int descriptor = open(write("out", output).c_str(), O_RDONLY | O_CLOEXEC);
    const Comparison result = compare_with_answer(descriptor, answer, kTolerance);
    close(descriptor);
    return result;
  };
  EXPECT_TRUE(compare_to({1, 2, 3}).passes());
  EXPECT_EQ(compare_to({1, 2, 9}).first.at(0).index, 2);
  EXPECT_FALSE(compare_to({1, 2}).same_size());
  EXPECT_THROW(read_answer((scratch_.path() / "missing").string()), Error);
  EXPECT_THROW(compare_with_answer(-1, answer, kTolerance), Error);
}

TEST_F(CompareAnswers, LengthsMustBeEqual) {
  EXPECT_FALSE(compare({1, 2}, {1, 2, 3}).same_size());
  EXPECT_FALSE(compare({1, 2, 3, 4}, {1, 2, 3}).passes());
  EXPECT_FALSE(compare({}, {1}).passes());
  EXPECT_TRUE(compare({}, {}).passes());
  std::ofstream(scratch_.path() / "answer", std::ios::app) << "x";
  EXPECT_THROW(compare_answers((scratch_.path() / "out").string(), (scratch_.path() / "answer").string(), 1), Error);
  EXPECT_THROW(compare_answers((scratch_.path() / "missing").string(), (scratch_.path() / "out").string(), 1), Error);
  EXPECT_THROW(compare_answers(scratch_.path().string(), (scratch_.path() / "out").string(), 1), Error);
}

TEST_F(CompareAnswers, ShowsTheFirstFewOfMany) {
  const std::vector<float> answer(3 << 20, 1.0f);
  std::vector<float> output(answer);
  for (std::size_t i = 2 << 20; i < output.size(); ++i) output[i] = 2;
  const Comparison wrong = compare(output, answer);
  EXPECT_EQ(wrong.mismatches, 1 << 20);
  ASSERT_EQ(wrong.first.size(), Comparison::kShown);
  EXPECT_EQ(wrong.first[0].index, 2 << 20);
}

}  // namespace
}  // namespace strobe::solve
