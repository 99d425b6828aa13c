// Tests report/result, which reads result files in every format, and rejects an invalid one with file, line and reason.
#include "report/result.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "report/rows.h"
#include "strobe/error.h"
#include "support/corpus.h"
#include "support/fuzz_result_rows.h"

namespace strobe::report {
namespace {

using test::row_text;

std::string refusal(const std::string& text) {
  try {
    parse_results(text, "f.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

std::string with_replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Result, ObjectsListsLinesAndAppendedFilesAreEquivalent) {
  const std::string a = row_text({.seqlen_q = 128}), b = row_text({.seqlen_q = 256});
  for (const std::string& text : {"[" + a + ",\n" + b + "]", a + "\n" + b + "\n", a + b, a + "\n[" + b + "]\n\n"}) {
    const std::vector<Result> results = parse_results(text, "f.json");
    ASSERT_EQ(results.size(), 2u) << text;
    EXPECT_EQ(results[0].config.seqlen_q, 128);
    EXPECT_EQ(results[1].config.seqlen_q, 256);
  }
}

TEST(Result, KeepsTheValuesOfTheFile) {
  const Result result = parse_results(row_text({.causal = true, .forward = {0.03, 0.01, 0.02}}), "f")[0];
  EXPECT_EQ(result.implementation, "flash2");
  EXPECT_TRUE(result.config.causal);
  EXPECT_EQ(result.config.head_dim, 16);
  EXPECT_EQ(result.config.seqlen_k, 128);
  ASSERT_TRUE(result.forward);
  EXPECT_DOUBLE_EQ(result.forward->median, 0.02);
  EXPECT_EQ(result.forward->samples.size(), 3u);
  EXPECT_FALSE(result.backward);
  EXPECT_EQ(result.peak_mb, 4.5);
  EXPECT_EQ(result.saved_mb, 1.5);
  EXPECT_EQ(result.machine, "a machine");
  EXPECT_EQ(describe(result.config), "batch 2, 4 heads x 16, sequence 128, fp32, causal");
  EXPECT_EQ(parse_results(row_text({.status = "oom"}), "f")[0].reason, "why");
}

TEST(Result, IdentityIgnoresTheOrderOfKeysAndTheOriginOfARow) {
  const std::string row = row_text({});
  const auto identity = [](const std::string& text) { return parse_results(text, "f")[0].config.identity; };
  const std::string other = with_replaced(with_replaced(row, R"("batch_size":2,)", ""), R"("threads":1)",
                                          R"("threads":1,"scaled":true,"batch_size":2)");
  EXPECT_EQ(identity(row), identity(other));
  EXPECT_NE(identity(row), identity(with_replaced(row, R"("threads":1)", R"("threads":2)")));
}

TEST(Result, NumbersOutOfRangeAreRejected) {
  const std::string row = row_text({});
  const auto with = [&](const std::string& from, const std::string& to) {
    return refusal(with_replaced(row, from, to));
  };
  for (const char* seconds : {"1e306", "1e-320", "1.1e9", "9e-13", "-1", "0"}) {
    EXPECT_EQ(with("\":0.01,", std::string("\":") + seconds + ","),
              fmt::format("f.json, line 1: forward.time(s) is {}; valid: 1e-12 to 1e+09 seconds",
                          Json::parse(seconds).dump()));
    EXPECT_NE(with("[0.01,", std::string("[") + seconds + ","), "") << seconds;
  }
  EXPECT_EQ(with("TFLOPs/s)\":0.1", "TFLOPs/s)\":1e300"),
            "f.json, line 1: FLOPS(TFLOPs/s) is 1e+300; valid: 0, or 1e-24 to 1e+09 TFLOP/s");
  EXPECT_EQ(with("usage(MB)\":4.5", "usage(MB)\":1e-300"),
            "f.json, line 1: peak_memory_usage(MB) is 1e-300; valid: 0, or 1e-07 to 1e+12 MB");
  EXPECT_EQ(with("\"environment\":{", "\"environment\":{\"ceilings\":{\"copy(B/s)\":1e300},"),
            "f.json, line 1: copy_bytes_per_s is 1e+300; valid: 0, or 1e-12 to 1e+18 bytes/s");
  EXPECT_NE(with("\"flash2\"", "\"" + std::string(5000, 'x') + "\""), "");
}

TEST(Result, ErrorsContainFileAndLine) {
  const std::string row = row_text({});
  const auto second_line = [&](const std::string& from, const std::string& to) {
    return refusal(row + "\n" + with_replaced(row, from, to));
  };
  EXPECT_EQ(refusal(""), "f.json: contains no result");
  EXPECT_EQ(refusal("hello"), "f.json, line 1: not JSON: not a number at byte 0 of 5");
  EXPECT_EQ(refusal("[]"), "f.json: contains no result");
  EXPECT_EQ(
      refusal("{\"a\": 1}"),
      "f.json, line 1: no \"implementation\": not a row of `strobe bench`, sweep, lm bench, lm train, comm or ladder");
  EXPECT_EQ(refusal(row + "\n3"), "f.json, line 2: a row is 3; valid: an object");
  EXPECT_EQ(refusal("[" + row + ",\n7]"), "f.json, line 2, item 2 of the list: a row is 7; valid: an object");
  EXPECT_EQ(second_line(R"("batch_size":2)", R"("batch_size":-2)"),
            "f.json, line 2: config.batch_size is -2; valid: a whole number from 0 to 2^40");
  EXPECT_EQ(second_line(R"("num_heads":4)", R"("num_heads":0)"),
            "f.json, line 2: config.num_heads is 0; valid: 1 or more");
  EXPECT_EQ(second_line(R"("causal":false)", R"("causal":"no")"),
            "f.json, line 2: config.causal is \"no\"; valid: true or false");
  EXPECT_EQ(second_line(R"("status":"ok")", R"("status":"fine")"),
            "f.json, line 2: status is \"fine\"; valid: ok, oom, unsupported, wrong, timeout, crashed");
  EXPECT_EQ(second_line("[0.01,", "[-1,"), "f.json, line 2: a value of samples_s is -1; valid: 1e-12 to 1e+09 seconds");
  EXPECT_EQ(second_line("\":0.01,", "\":null,"),
            "f.json, line 2: status is \"ok\", but neither forward nor backward has a time");
  const std::string cut = refusal(row + "\n" + row.substr(0, 50));
  EXPECT_TRUE(cut.starts_with("f.json, line 2: not JSON: ")) << cut;
  try {
    read_results("/nowhere/f.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "/nowhere/f.json: cannot be read: No such file or directory");
  }
}

// tests/data/results/lab5-h200.jsonl has the results of the sweep `lab5`, measured on an H200 (docs/source-report.md).
// Peak memory must be within 5 % of the closed forms, which include a cuBLAS workspace: 64 MB in PyTorch, 32 MB in
// `standard`.
TEST(Result, TheResultsOfLab5AreComplete) {
  const auto results = read_results(STROBE_TEST_DATA "/results/lab5-h200.jsonl");
  ASSERT_EQ(results.size(), 144u);
  std::set<std::string> cells;
  for (const Result& result : results) {
    EXPECT_EQ(result.status, "ok");
    cells.insert(result.implementation + describe(result.config));
    const Config& c = result.config;
    const double rows = static_cast<double>(c.batch * c.heads * c.seqlen_q),
                 scores = 2 * rows * static_cast<double>(c.seqlen_q);
    const double tensor = 2 * static_cast<double>(c.batch * c.seqlen_q * c.emb), mb = 1 << 20;
    const std::map<std::string, double> forms = {{"flash2", 10 * tensor + 8 * rows},
                                                 {"standard", 2 * scores + 10 * tensor + 4 * rows + 32 * mb},
                                                 {"torch-naive", 4 * scores + 9 * tensor + 64 * mb}};
    ASSERT_TRUE(result.peak_mb);
    EXPECT_NEAR(*result.peak_mb * mb / forms.at(result.implementation), 1, 0.05) << describe(c);
    if (result.implementation == "torch-naive") continue;  // has no predicted memory
    ASSERT_TRUE(result.predicted_mb);
    EXPECT_NEAR(*result.peak_mb / *result.predicted_mb, 1, 0.05) << describe(c);
  }
  EXPECT_EQ(cells.size(), 144u);
}

TEST(Result, DamagedFilesGiveRowsOrAnErrorAndNoCrash) {
  std::ifstream file(STROBE_TEST_DATA "/results/small.jsonl");
  std::string line, text;
  for (int i = 0; i < 2 && std::getline(file, line); ++i) text += line + "\n";
  ASSERT_EQ(parse_results(text, "f").size(), 2u);
  const auto survives = [](const std::string& bytes) {
    try {
      for (const Result& result : parse_results(bytes, "f")) EXPECT_GE(result.config.heads, 1);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    }
  };
  for (std::size_t size = 0; size < text.size(); ++size) survives(text.substr(0, size));
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char c : {'0', '-', '"', '}', 'e', '\xff'}) {
      std::string changed = text;
      changed[at] = c;
      survives(changed);
    }
  }
}

// Replays the seeds of the fuzz harness.
TEST(ResultRowsFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"gpu", "lines", "list", "markup", "one", "oom", "split_date"};
  EXPECT_EQ(test::accepted_seeds("result_rows", test::fuzz_result_rows), valid);
}

TEST(ResultRowsFuzz, MutationsAreRejectedOrValid) {
  EXPECT_GT(test::accepted_json_mutations("result_rows", 150, test::fuzz_result_rows), 10);
}

}  // namespace
}  // namespace strobe::report
