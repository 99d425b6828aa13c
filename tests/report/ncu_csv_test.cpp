// Tests report/ncu_csv, which reads counters from the CSV output of ncu. The samples in tests/data/ncu are written by
// hand in that format.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "report/ncu_csv.h"
#include "strobe/error.h"
#include "support/corpus.h"
#include "support/fuzz_ncu_csv.h"

namespace strobe::report {
namespace {

std::string sample(const std::string& name) {
  std::ifstream file(std::string(STROBE_TEST_DATA) + "/ncu/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(NcuCsv, WeightsLaunchesByTheirTime) {
  const Json read = read_ncu_csv(sample("two_launches.csv"));
  EXPECT_EQ(read.at("launches").as_integer(), 2);
  const Json& counters = read.at("counters");
  const auto value = [&](const char* key) { return counters.at(key).as_number(); };
  // Percentages and rates are means over two launches of 3 ms and 1 ms, weighted by time; counts are sums.
  EXPECT_DOUBLE_EQ(value("achieved_occupancy"), 60);  // (3 * 50 + 1 * 90) / 4
  EXPECT_DOUBLE_EQ(value("sm_efficiency"), 95);       // (3 * 96 + 1 * 92) / 4
  EXPECT_DOUBLE_EQ(value("global_load"), 3);          // (3 * 2 + 1 * 6) / 4 GB/s
  EXPECT_DOUBLE_EQ(value("global_store"), 0.05);      // (3 * 0.04 + 1 * 0.08) / 4
  EXPECT_DOUBLE_EQ(value("shared_load"), 128);        // 4e6 wavefronts of 128 bytes in 4 ms
  EXPECT_DOUBLE_EQ(value("shared_store"), 64);        // 2e6 wavefronts of 128 bytes in 4 ms
  EXPECT_DOUBLE_EQ(value("bank_conflicts"), 2000);    // "1,024" + 976
  EXPECT_DOUBLE_EQ(value("warp_efficiency"), 93.75);  // (3 * 32 + 1 * 24) / 4 of 32 threads
  EXPECT_DOUBLE_EQ(value("gflops"), 2000.75);         // 2 * 4e9 + 2e6 + 1e6 operations in 4 ms
}

TEST(NcuCsv, ReadsUnitsWithPrefixes) {
  std::string text = sample("two_launches.csv");
  text = replaced(text, "\"ns\"", "\"usecond\"");
  text = replaced(text, "\"3000000\",\"1,024\"", "\"3000\",\"1,024\"");
  text = replaced(text, "\"1000000\",\"976\"", "\"1000\",\"976\"");
  text = replaced(text, "\"byte/second\"", "\"Gbyte/second\"");
  text = replaced(text, "\"2000000000\"", "\"2\"");
  text = replaced(text, "\"6000000000\"", "\"6\"");
  EXPECT_NEAR(read_ncu_csv(text).at("counters").at("global_load").as_number(), 3, 1e-12);
}

TEST(NcuCsv, MissingCountersAreNull) {
  const std::string text = replaced(sample("two_launches.csv"), "\"1,024\"", "\"n/a\"");
  const Json read = read_ncu_csv(text);
  EXPECT_TRUE(read.at("counters").at("bank_conflicts").is_null());
  EXPECT_DOUBLE_EQ(read.at("counters").at("achieved_occupancy").as_number(), 60);
  const std::string renamed = replaced(sample("two_launches.csv"), "sm__warps_active", "sm__other");
  EXPECT_TRUE(read_ncu_csv(renamed).at("counters").at("achieved_occupancy").is_null());
}

TEST(NcuCsv, AMissingTableIsAnErrorWithNcusReason) {
  try {
    read_ncu_csv(sample("no_permission.csv"));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("ERR_NVGPUCTRPERM"), std::string::npos) << error.what();
  }
  EXPECT_THROW(read_ncu_csv(""), Error);
  EXPECT_THROW(read_ncu_csv("\"ID\",\"a\"\n\"\",\"\"\n"), Error);
  EXPECT_THROW(read_ncu_csv("\"ID\",\"a\"\n\"\",\"\"\n\"0\"\n"), Error);
}

TEST(NcuCsv, TheSampleHasEveryRequestedMetric) {
  const std::string text = sample("two_launches.csv"), metrics = ncu_metrics();
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), ','), 11);
  for (std::size_t at = 0; at < metrics.size();) {
    const std::size_t comma = std::min(metrics.find(',', at), metrics.size());
    EXPECT_NE(text.find("\"" + metrics.substr(at, comma - at) + "\""), std::string::npos)
        << metrics.substr(at, comma - at);
    at = comma + 1;
  }
}

std::string ncu_refusal(const std::string& text) {
  try {
    read_ncu_csv(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(NcuCsv, AnErrorWithoutTextIsOneLine) {
  EXPECT_EQ(ncu_refusal("==ERROR=="), "ncu: failed without an error message");
  EXPECT_EQ(ncu_refusal("==ERROR==\n"), "ncu: failed without an error message");
  EXPECT_EQ(ncu_refusal("==ERROR==   "), "ncu: failed without an error message");
  EXPECT_EQ(ncu_refusal("==ERROR==x"), "ncu: x");
  EXPECT_EQ(ncu_refusal("==ERROR== no permission"), "ncu: no permission");
}

TEST(NcuCsv, BadRowsAreReportedWithTheirLine) {
  const std::string head = "==PROF== x\n\"ID\",\"gpu__time_duration.sum\"\n\"\",\"ns\"\n";
  EXPECT_EQ(ncu_refusal(head + "\"0\""), "ncu: line 4: the row has 1 cells, but there are 2 names: \"0\"");
  EXPECT_EQ(ncu_refusal(head + "\"0\",\"5\"\n\"1\",\"1e300\"\n"),
            "ncu: line 5: gpu__time_duration.sum is 1e300; valid: 0, or 1e-15 to 1e+18 in seconds, bytes or counts");
  EXPECT_EQ(ncu_refusal(head + "\"0\",\"-5\"\n"),
            "ncu: line 4: gpu__time_duration.sum is -5; valid: 0, or 1e-15 to 1e+18 in seconds, bytes or counts");
  EXPECT_EQ(ncu_refusal(head + "\"0\",\"inf\"\n"), "");  // inf means that the counter is not available
}

// A file that is cut at any byte is read or rejected with one line.
TEST(NcuCsv, EveryTruncationIsReadOrRejected) {
  const std::string whole = sample("two_launches.csv");
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const std::string why = ncu_refusal(whole.substr(0, size));
    EXPECT_EQ(why.find('\n'), std::string::npos) << size;
  }
}

// Replays the seeds of the fuzz harness.
TEST(NcuCsvFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"two_launches", "units"};
  EXPECT_EQ(test::accepted_seeds("ncu_csv", test::fuzz_ncu_csv), valid);
}

}  // namespace
}  // namespace strobe::report
