// Compares every implementation (rung) of the course's ladder with float64. Also tests the list of rungs, the cases,
// and that the check of results rejects wrong ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "device/device_info.h"
#include "lab/case.h"
#include "lab/check.h"
#include "lab/cpu/runs.h"
#include "lab/measure.h"
#include "lab/rung.h"
#include "strobe/error.h"

namespace strobe::lab {
namespace {

// Returns the largest absolute error of a rung on a case. The limits below are far under the course's tolerance, which
// a result without one key could pass.
double error_of(const Rung& rung, const CourseCase& size) {
  const Subject subject(size);
  std::vector<float> o(static_cast<std::size_t>(subject.inputs.problem().elements()),
                       std::numeric_limits<float>::quiet_NaN());
  rung.run(subject.inputs.problem(), o.data());
  EXPECT_EQ(subject.answer.rows(), std::int64_t{size.batch} * size.rows) << "not all rows are checked";
  return subject.answer.largest_error(o.data());
}

constexpr double kClose = 2e-5;
constexpr double kCloseFast = 1e-3;  // rungs compiled with --use_fast_math

TEST(Rungs, AreInTheOrderOfTheCourse) {
  const std::vector<std::string_view> expected = {
      "sequential", "cpu-library",  "five-kernels", "shared",    "padded",     "pitched",      "unrolled", "coalesced",
      "registers",  "q-stationary", "float4",       "fast-math", "one-stream", "four-streams", "pinned",   "library"};
  std::vector<std::string_view> names;
  for (const Rung& rung : rungs()) {
    names.push_back(rung.name);
    EXPECT_FALSE(rung.idea.empty()) << rung.name;
  }
  EXPECT_EQ(names, expected);
  EXPECT_EQ(std::set(names.begin(), names.end()).size(), names.size());
}

TEST(Rungs, OfTheGpuNeedABuildWithCuda) {
  const bool cuda = gpu_inventory().compiled_in;
  for (const Rung& rung : rungs()) {
    EXPECT_EQ(rung.run != nullptr, cuda || rung.processor == Processor::cpu) << rung.name;
    if (rung.run) continue;
    EXPECT_NE(refusal_of(rung, {1, 128, 64}).find("not in this build"), std::string::npos) << rung.name;
  }
}

TEST(Rungs, OfTheCpuAreCorrectForUnusualSizes) {
  for (const Rung& rung : rungs()) {
    if (rung.processor != Processor::cpu) continue;
    for (const auto& [batch, rows, dim] : {std::tuple{1, 1, 1}, {2, 128, 32}, {3, 31, 5}, {1, 33, 64}, {2, 97, 40}}) {
      EXPECT_LT(error_of(rung, {"", batch, rows, dim}), kClose)
          << rung.name << " " << batch << "," << rows << "," << dim;
    }
  }
}

// Small sizes are in GpuRungs, larger ones in GpuLargerRungs. tools/gpu_check/sanitizers.py runs only GpuRungs, because
// the first rungs would take too long under compute-sanitizer.
class GpuRungs : public testing::TestWithParam<Rung> {
 protected:
  void SetUp() override {
    const GpuInventory inventory = gpu_inventory();
    if (inventory.gpus.empty()) GTEST_SKIP() << inventory.reason;
  }

  static void expect_right(const CourseCase& size) {
    const Rung& rung = GetParam();
    const bool fast =
        rung.name == "fast-math" || rung.name == "one-stream" || rung.name == "four-streams" || rung.name == "pinned";
    EXPECT_LT(error_of(rung, size), fast ? kCloseFast : kClose) << size.batch << "," << size.rows << "," << size.dim;
  }
};

// Tests a single tile, and two batches of two tiles.
TEST_P(GpuRungs, IsRightForBothDimensions) {
  expect_right({"", 1, 32, 32});
  expect_right({"", 2, 64, 64});
}

class GpuLargerRungs : public GpuRungs {};

TEST_P(GpuLargerRungs, IsRightForManyTilesAndBatches) {
  expect_right({"", 3, 128, 64});
  expect_right({"", 9, 96, 32});  // more sequences than chunks in which inputs are copied
  expect_right({"", 2, 256, 32});
}

std::vector<Rung> gpu_rungs() {
  std::vector<Rung> found;
  for (const Rung& rung : rungs()) {
    if (rung.processor == Processor::gpu) found.push_back(rung);
  }
  return found;
}

std::string test_name(const testing::TestParamInfo<Rung>& instance) {
  std::string name(instance.param.name);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, GpuRungs, testing::ValuesIn(gpu_rungs()), test_name);
INSTANTIATE_TEST_SUITE_P(All, GpuLargerRungs, testing::ValuesIn(gpu_rungs()), test_name);

class GpuLaunches : public testing::Test {
 protected:
  void SetUp() override {
    const GpuInventory inventory = gpu_inventory();
    if (inventory.gpus.empty()) GTEST_SKIP() << inventory.reason;
  }

  static Launches launches_of(std::string_view name, const CourseCase& size) {
    const Inputs inputs(size);
    std::vector<float> o(static_cast<std::size_t>(inputs.problem().elements()));
    return find_rung(name).run(inputs.problem(), o.data()).launches;
  }
};

TEST_F(GpuLaunches, AreOnePerBatchAndTileOfKeysUntilQStationary) {
  const CourseCase size{"", 3, 128, 64};
  for (const char* name : {"shared", "padded", "pitched", "unrolled", "coalesced", "registers"}) {
    EXPECT_EQ(launches_of(name, size).count, 3 * 128 / 32) << name;
  }
  EXPECT_EQ(launches_of("five-kernels", size).count, 5 * 3 * 4 * 4);
  EXPECT_EQ(launches_of("q-stationary", size).count, 1);
  EXPECT_EQ(launches_of("pinned", size).count, 3);  // one per sequence, because a chunk has one sequence
  EXPECT_EQ(launches_of("library", size).count, 0);
}

// The source report gives 42240 bytes: ten squares of 32 x 33 floats.
TEST_F(GpuLaunches, Have42240BytesOfSharedMemoryIfPadded) {
  const CourseCase size{"", 1, 32, 64};
  EXPECT_EQ(launches_of("shared", size).shared_bytes, 40960u);
  for (const char* name : {"padded", "pitched", "unrolled", "coalesced"}) {
    EXPECT_EQ(launches_of(name, size).shared_bytes, 42240u) << name;
  }
  EXPECT_EQ(launches_of("q-stationary", size).shared_bytes, 29568u);
}

TEST(Rungs, RejectUnsupportedSizes) {
  Rung rung = rungs()[0];
  rung.sizes = Sizes::tiles;
  EXPECT_EQ(refusal_of(rung, {2, 128, 64}), "");
  EXPECT_EQ(refusal_of(rung, {2, 128, 48}), "d 48: this rung needs d 32 or 64");
  EXPECT_EQ(refusal_of(rung, {2, 100, 64}), "N 100: this rung needs a multiple of 32");
  EXPECT_THROW(find_rung("sequentiel"), Error);
}

TEST(Cases, AreThirtyAndCanBeFound) {
  EXPECT_EQ(course_cases().size(), 30u);
  const CourseCase found = parse_case("t28");
  EXPECT_EQ(found.batch, 4);
  EXPECT_EQ(found.rows, 16384);
  EXPECT_EQ(found.dim, 64);
  EXPECT_EQ(parse_case("3,7,5").rows, 7);
  EXPECT_EQ(parse_case("b3 s7 d5").batch, 3);
  EXPECT_EQ(parse_case("b3 d5 s7").dim, 5);
  for (const char* text : {"b3 s7", "b3 s7 d5 h2", "b3 s7 d5 causal", "b3 s7x4 d5", "b3,4 s7 d5", "b3 b4 s7 d5"}) {
    EXPECT_THROW(parse_case(text), Error) << text;
  }
}

TEST(Cases, AreScaledByBatchesThenByRows) {
  const CourseCase fewer = parse_case("t15", 0.01);
  EXPECT_EQ(fewer.batch, 20);
  EXPECT_EQ(fewer.rows, 512);
  const CourseCase shorter = parse_case("t28", 0.001);
  EXPECT_EQ(shorter.batch, 1);
  EXPECT_EQ(shorter.name, "t28 scaled");
  EXPECT_EQ(shorter.rows, 1024);  // 1024^2 <= 0.001 * 4 * 16384^2
}

TEST(Cases, UnknownCasesAreRejected) {
  for (const char* text : {"", "t31", "t1", "4,16384", "4,16384,64,1", "0,128,32", "-1,128,32", "4,,64", "4,128,64 ",
                           "99999999999,1,1", "2000000000,2000000000,64"}) {
    EXPECT_THROW(parse_case(text), Error) << text;
  }
  for (const double scale : {0.0, -1.0, 1.5, std::nan("")}) EXPECT_THROW(parse_case("t28", scale), Error) << scale;
}

TEST(Answer, DetectsOneWrongElementAndNaN) {
  const Subject subject({"", 1, 40, 8});
  std::vector<float> o(40 * 8);
  rungs()[0].run(subject.inputs.problem(), o.data());
  EXPECT_LT(subject.answer.largest_error(o.data()), kClose);
  o[317] += 0.01f;
  EXPECT_NEAR(subject.answer.largest_error(o.data()), 0.01, 1e-4);
  o[2] = std::nanf("");
  EXPECT_TRUE(std::isinf(subject.answer.largest_error(o.data())));
}

TEST(Answer, SamplesRowsOfLargeCases) {
  const Inputs inputs({"", 2, 64, 8});
  const Answer answer(inputs.problem(), 10 * 4.0 * 64 * 8);
  EXPECT_EQ(answer.rows(), 10);
}

// Writes a wrong result and returns a time, which must not be reported.
Split run_wrongly(const RungProblem& problem, float* o) {
  std::fill(o, o + problem.elements(), 0.5f);
  return {.total = 1};
}

TEST(Measure, GivesNoTimeToAWrongRung) {
  Subjects subjects;
  const Json row = measure({Json::object(), run_wrongly}, {"", 2, 64, 8}, subjects, {});
  EXPECT_EQ(row.at("status").as_string(), "wrong");
  EXPECT_EQ(row.find("seconds"), nullptr);
}

Split run_with_launches(const RungProblem& problem, float* o) {
  Split split = run_sequential(problem, o);
  split.launches = {.count = 7, .shared_bytes = 640};
  return split;
}

TEST(Measure, WritesLaunchesOnlyIfThereAreSome) {
  Subjects subjects;
  Settings settings;
  settings.rule.repeats = 1;
  const Json row = measure({Json::object(), run_with_launches}, {"", 1, 64, 8}, subjects, settings);
  EXPECT_EQ(row.at("launches").as_integer(), 7);
  EXPECT_EQ(row.at("shared_bytes").as_integer(), 640);
  const Json without = measure({Json::object(), run_sequential}, {"", 1, 64, 8}, subjects, settings);
  EXPECT_EQ(without.at("status").as_string(), "ok");
  EXPECT_EQ(without.find("launches"), nullptr);
}

TEST(Measure, ReportsScaledTimes) {
  Subjects subjects;
  Settings settings{.limit = 1e-9};
  settings.rule.repeats = 1;
  const Json row = measure({Json::object(), rungs()[0].run}, {"", 2, 512, 8}, subjects, settings);
  EXPECT_EQ(row.at("status").as_string(), "ok");
  EXPECT_EQ(row.at("scaled_from").at("rows").as_integer(), 128);
  settings.limit = 1e9;
  EXPECT_EQ(measure({Json::object(), rungs()[0].run}, {"", 2, 512, 8}, subjects, settings).find("scaled_from"),
            nullptr);
}

}  // namespace
}  // namespace strobe::lab
