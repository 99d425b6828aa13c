// Tests `strobe compare`, `strobe report` and `strobe bench --launches` as users run them: exit codes, written files,
// files that must not be replaced, and bad input.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "cli/run_program.h"
#include "core/json.h"
#include "report/assets.h"
#include "report/rows.h"
#include "support/sanitized.h"

namespace strobe::test {
namespace {

constexpr const char* kSmallResults = "'" STROBE_TEST_DATA "/results/small.jsonl'";

void write(const Scratch& scratch, const std::string& name, const std::string& text) {
  std::ofstream(scratch.path() / name) << text;
}

std::string five_rows(double seconds) {
  std::string text;
  for (int i = 0; i < 5; ++i) text += row_text({.forward = {seconds, seconds * 1.01}}) + "\n";
  return text;
}

TEST(CompareCommand, ExitCodeIsOneOnlyForAProvenSlowdown) {
  const Scratch scratch;
  write(scratch, "a.json", five_rows(0.010));
  write(scratch, "b.json", five_rows(0.011));
  write(scratch, "c.json", five_rows(0.0101));
  const Program slower = run_program("compare a.json b.json --markdown m.md", scratch);
  EXPECT_EQ(slower.code, 1) << slower.errors;
  EXPECT_NE(slower.output.find("1 slower"), std::string::npos) << slower.output;
  EXPECT_NE(scratch.read("m.md").find("**slower**"), std::string::npos);
  EXPECT_EQ(run_program("compare b.json a.json", scratch).code, 0);  // a is faster than b
  EXPECT_EQ(run_program("compare a.json c.json", scratch).code, 0);  // a and c are equally fast
  EXPECT_EQ(run_program("compare --threshold=20% a.json b.json", scratch).code, 0);
}

TEST(CompareCommand, BadInputIsOneLineAndLeavesNothing) {
  const Scratch scratch;
  write(scratch, "a.json", five_rows(0.010));
  write(scratch, "other.json", row_text({.seqlen_q = 4096}));
  write(scratch, "bad.json", "{\"forward\": ");
  for (const char* arguments :
       {"compare", "compare a.json", "compare a.json a.json a.json", "compare a.json none.json",
        "compare a.json bad.json --markdown m.md", "compare a.json other.json --markdown m.md",
        "compare a.json a.json --threshold 5x", "compare a.json a.json --threshold 50",
        "compare a.json a.json --markdown /nowhere/m.md", "compare a.json other.json --markdown ./a.json", "report",
        "report none.json", "report a.json ./a.json", "report a.json bad.json", "report a.json --output ''",
        "report a.json --output a.json/x", "report a.json --width 3", "bench --launches 0"}) {
    const Program program = run_program(arguments, scratch);
    EXPECT_EQ(program.code, 2) << arguments << "\n" << program.errors;
    EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << arguments << "\n" << program.errors;
    EXPECT_EQ(scratch.entries(), 3u) << arguments;
  }
  EXPECT_NE(
      run_program("compare a.json a.json --markdown ./a.json", scratch).errors.find("is also the file of a result"),
      std::string::npos);
  EXPECT_NE(run_program("compare a.json bad.json", scratch).errors.find("bad.json, line 1: "), std::string::npos);
}

TEST(ReportCommand, DoesNotWaitForAPipeAndReadsTheStandardInput) {
  const Scratch scratch;
  write(scratch, "a.json", five_rows(0.010));
  const Program pipe = run_command("mkfifo pipe && timeout 20 '" STROBE_PROGRAM "' report pipe", scratch);
  EXPECT_EQ(pipe.code, 2);
  EXPECT_EQ(pipe.errors, "strobe: pipe: is not a regular file; valid: a result file, or /dev/stdin\n");
  EXPECT_NE(run_program("report .", scratch).errors.find(".: is a folder; valid: a result file"), std::string::npos);
  const Program input = run_command("cat a.json | '" STROBE_PROGRAM "' compare /dev/stdin a.json", scratch);
  EXPECT_EQ(input.code, 0) << input.errors;
}

TEST(ReportCommand, WritesPageTablesAndCharts) {
  if (report::kChartLibrary[0] == '\0') GTEST_SKIP() << "built without Chart.js";
  const Scratch scratch;
  const Program program = run_program(std::string("report ") + kSmallResults + " --output out", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  const std::string page = scratch.read("out/report.html");
  EXPECT_TRUE(page.starts_with("<!doctype html>"));
  for (const char* outside : {" src=\"", "<link", "@import", "url(http"}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(scratch.read("out/report.md").find("| flash2 |"), std::string::npos);
  EXPECT_TRUE(scratch.read("out/cells.csv").starts_with("implementation,"));
  EXPECT_NE(scratch.read("out/charts/time-seq_len-forward-fp32-causal-on.svg").find("</svg>"), std::string::npos);
}

TEST(ReportCommand, OnlyChartsOfAnEarlierReportAreRemoved) {
  if (report::kChartLibrary[0] == '\0') GTEST_SKIP() << "built without Chart.js";
  const Scratch scratch;
  write(scratch, "other.json", row_text({.dtype = "bf16"}));
  std::filesystem::create_directories(scratch.path() / "out" / "charts");
  write(scratch, "out/charts/mine.svg", "before any report");
  write(scratch, "out/charts/notes.txt", "mine");
  const std::string command = "report --output out ";
  ASSERT_EQ(run_program(command + kSmallResults, scratch).code, 0);
  const std::filesystem::path chart = scratch.path() / "out/charts/time-seq_len-forward-fp32-causal-on.svg";
  EXPECT_TRUE(std::filesystem::exists(chart));
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "out/charts/mine.svg"));
  ASSERT_EQ(run_program(command + "other.json", scratch).code, 0);
  EXPECT_FALSE(std::filesystem::exists(chart));
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "out/charts/notes.txt"));
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "out/cells.csv"));
}

// A report removes the charts that the previous report listed, except charts edited since. Without a list, or with a
// damaged one, it removes no file.
TEST(ReportCommand, RemovesOnlyChartsThatItWroteItself) {
  if (report::kChartLibrary[0] == '\0') GTEST_SKIP() << "built without Chart.js";
  const Scratch scratch;
  write(scratch, "other.json", row_text({.dtype = "bf16"}));
  const std::string command = "report --output out ";
  ASSERT_EQ(run_program(command + kSmallResults, scratch).code, 0);
  const std::filesystem::path charts = scratch.path() / "out/charts", list = scratch.path() / "out/.strobe-report.json";
  const char *stale = "time-seq_len-forward-fp32-causal-on.svg", *edited = "rate-seq_len-forward-fp32-causal-on.svg";
  ASSERT_TRUE(std::filesystem::exists(charts / edited));
  write(scratch, "out/charts/mine.svg", "<svg>mine</svg>");
  std::ofstream(charts / edited, std::ios::app) << "<!-- edited -->";
  const std::string kept = scratch.read("out/.strobe-report.json");
  std::filesystem::remove(list);
  ASSERT_EQ(run_program(command + "other.json", scratch).code, 0);
  EXPECT_TRUE(std::filesystem::exists(charts / stale));
  write(scratch, "out/keep.svg", scratch.read(std::string("out/charts/") + stale));
  write(scratch, "out/.strobe-report.json", kept);
  ASSERT_EQ(run_program(command + "other.json", scratch).code, 0);
  EXPECT_FALSE(std::filesystem::exists(charts / stale));
  EXPECT_TRUE(std::filesystem::exists(charts / edited));
  EXPECT_EQ(scratch.read("out/charts/mine.svg"), "<svg>mine</svg>");
  for (const char* bad :
       {R"({"written_by": "strobe report", "charts":[{"name":"../keep.svg","crc32":0}]})",
        R"({"written_by": "strobe report", "charts":[{"name":1}]})", R"({"written_by": "strobe report", )"}) {
    write(scratch, "out/.strobe-report.json", bad);
    EXPECT_EQ(run_program(command + "other.json", scratch).code, 0) << bad;
  }
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "out/keep.svg"));
}

TEST(ReportCommand, AFailedWriteLeavesTheOldReportComplete) {
  if (report::kChartLibrary[0] == '\0') GTEST_SKIP() << "built without Chart.js";
  const Scratch scratch;
  write(scratch, "other.json", row_text({.dtype = "bf16"}));
  ASSERT_EQ(run_program(std::string("report --output out ") + kSmallResults, scratch).code, 0);
  const auto snapshot = [&] {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(scratch.path() / "out")) {
      const std::string name = std::filesystem::relative(entry.path(), scratch.path()).string();
      all[name] = entry.is_regular_file() ? scratch.read(name) : "";
    }
    return all;
  };
  const auto before = snapshot();
  for (const int blocks : {1, 4, 64}) {  // a block has 512 or 1024 bytes; the page exceeds 64 KB
    const Program program = run_command(
        fmt::format("ulimit -f {} && '" STROBE_PROGRAM "' report --output out other.json", blocks), scratch);
    EXPECT_EQ(program.code, 3) << program.errors;
    EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << program.errors;
    EXPECT_EQ(snapshot(), before) << blocks;
  }
  // The last chart cannot be written.
  const std::filesystem::path chart = scratch.path() / "out/charts/roofline-forward-bf16-causal-off.svg";
  std::filesystem::remove(chart);
  std::filesystem::create_directory(chart);
  const auto with_folder = snapshot();
  const Program program = run_program("report --output out other.json", scratch);
  EXPECT_EQ(program.code, 2) << program.errors;
  EXPECT_EQ(snapshot(), with_folder);
}

// A chart's axis could get endlessly many ticks from such values.
TEST(ReportCommand, HugeAndTinyTimesAreRejectedAtOnce) {
  const Scratch scratch;
  const std::string limit = kSanitized ? "" : "ulimit -v 2000000; ";  // AddressSanitizer needs more address space
  std::string row = row_text({});
  const std::string time = "\"time(s)\":0.01";
  for (const char* seconds : {"1e306", "1e-320"}) {
    std::string bad = row;
    bad.replace(bad.find(time), time.size(), std::string("\"time(s)\":") + seconds);
    write(scratch, "bad.json", bad);
    for (const char* command : {"report bad.json --output out", "compare bad.json bad.json"}) {
      const Program program = run_command(limit + "timeout 20 '" STROBE_PROGRAM "' " + command, scratch);
      EXPECT_EQ(program.code, 2) << program.errors;
      EXPECT_TRUE(program.errors.starts_with("strobe: bad.json, line 1: forward.time(s) is ")) << program.errors;
    }
  }
  EXPECT_EQ(scratch.entries(), 1u);
}

TEST(CompareCommand, MarkdownShowsFileNamesAsText) {
  const Scratch scratch;
  write(scratch, "`![x](y)@me.json", five_rows(0.010));
  ASSERT_EQ(run_program("compare '`![x](y)@me.json' '`![x](y)@me.json' --markdown m.md", scratch).code, 0);
  const std::string text = scratch.read("m.md");
  EXPECT_NE(text.find(R"(A is \`!\[x\](y)@&#8203;me.json, B is )"), std::string::npos) << text;
}

TEST(ReportCommand, FilesOfTheUserAreNotReplaced) {
  if (report::kChartLibrary[0] == '\0') GTEST_SKIP() << "built without Chart.js";
  const Scratch scratch;
  const std::string command = std::string("report ") + kSmallResults + " --output ";
  std::filesystem::create_directories(scratch.path() / "out");
  write(scratch, "out/cells.csv", "my cells");
  write(scratch, "page.html", "<title>my page</title>");
  for (const std::string where : {"out", "page.html"}) {
    const Program program = run_program(command + where, scratch);
    EXPECT_EQ(program.code, 2);
    EXPECT_EQ(program.errors,
              "strobe: --output: " + (where == "out" ? "out/cells.csv" : where) +
                  ": exists and was not written by a report of strobe; valid: another path, or remove the "
                  "file first\n");
  }
  EXPECT_EQ(scratch.read("out/cells.csv"), "my cells");
  EXPECT_EQ(scratch.read("page.html"), "<title>my page</title>");
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "out/report.html"));
  write(scratch, "page.html", "");
  // An empty file, and then the page that the first run wrote, may be replaced.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(run_program(command + "page.html", scratch).code, 0);
}

// The program does not follow links inside its output folder.
TEST(ReportCommand, LinksInsideTheFolderAreRejected) {
  if (report::kChartLibrary[0] == '\0') GTEST_SKIP() << "built without Chart.js";
  const Scratch scratch;
  const std::string command = std::string("report --output out ") + kSmallResults;
  ASSERT_EQ(run_program(command, scratch).code, 0);
  const std::filesystem::path out = scratch.path() / "out";
  for (const char* name :
       {"report.html", "cells.csv", ".strobe-report.json", "charts/rate-seq_len-forward-fp32-causal-on.svg"}) {
    std::filesystem::rename(out / name, out / "kept");
    std::filesystem::create_symlink(scratch.path() / "victim", out / name);
    const Program program = run_program(command, scratch);
    EXPECT_EQ(program.code, 2) << name;
    EXPECT_EQ(program.errors,
              fmt::format("strobe: --output out/{}: is a symbolic link; valid: a regular file\n", name));
    EXPECT_FALSE(std::filesystem::exists(scratch.path() / "victim")) << name;
    std::filesystem::rename(out / "kept", out / name);
  }
  EXPECT_EQ(run_program(command, scratch).code, 0);
}

TEST(ReportCommand, EachFileIsRecognizedSeparately) {
  if (report::kChartLibrary[0] == '\0') GTEST_SKIP() << "built without Chart.js";
  const Scratch scratch;
  write(scratch, "row.json", row_text({}));
  const std::string command = "report --output out row.json";
  ASSERT_EQ(run_program(command, scratch).code, 0);
  std::filesystem::remove(scratch.path() / "out/report.html");
  EXPECT_EQ(run_program(command, scratch).code, 0);
  for (const char* name : {"out/report.md", "out/cells.csv"}) {
    write(scratch, name, "mine");
    EXPECT_EQ(run_program(command, scratch).code, 2) << name;
    EXPECT_EQ(scratch.read(name), "mine");
    std::filesystem::remove(scratch.path() / name);
  }
}

TEST(ReportCommand, OnePageFromSeveralFiles) {
  if (report::kChartLibrary[0] == '\0') GTEST_SKIP() << "built without Chart.js";
  const Scratch scratch;
  write(scratch, "more.json", "[" + row_text({.machine = "elsewhere"}) + "]");
  const Program program =
      run_program(std::string("report more.json ") + kSmallResults + " --output page.html", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_EQ(scratch.entries(), 2u);
  EXPECT_NE(scratch.read("page.html").find("elsewhere"), std::string::npos);
}

TEST(BenchCommand, LaunchesAreSeparateProcesses) {
  const Scratch scratch;
  const std::string small = "bench --batch_size 1 --seq_len 32 --num_heads 2 --emb_dim 32 --quick --repeats 2 ";
  const Program program = run_program(small + "--launches 2 --impl flash2,standard", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  const Json rows = Json::parse(scratch.read("benchmark_result.json"));
  ASSERT_EQ(rows.as_array().size(), 4u);
  EXPECT_EQ(rows.as_array()[0].at("launch").dump(), R"({"number":1,"of":2})");
  EXPECT_EQ(rows.as_array()[3].at("launch").dump(), R"({"number":2,"of":2})");
  EXPECT_EQ(rows.as_array()[3].at("command").as_string(), "strobe " + small + "--launches 2 --impl flash2,standard");
  EXPECT_EQ(rows.as_array()[3].at("implementation").as_string(), "standard");
  EXPECT_EQ(run_program("compare benchmark_result.json benchmark_result.json --threshold 900%", scratch).code, 0);
}

}  // namespace
}  // namespace strobe::test
