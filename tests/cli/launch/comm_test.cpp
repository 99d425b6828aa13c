// Tests `strobe comm`, which measures collectives, as users run it, on two or three ranks.
#include <gtest/gtest.h>

#include "cli/background.h"
#include "cli/run_program.h"
#include "comm/engine.h"
#include "core/crc32.h"
#include "core/json.h"

namespace strobe::test {
namespace {

bool has_ranks() { return !comm::why_no_mpi() && std::system("command -v mpirun >/dev/null 2>&1") == 0; }

TEST(CommCommand, MeasuresChecksAndWrites) {
  if (!has_ranks()) GTEST_SKIP() << "no MPI in this build, or no mpirun";
  const Scratch scratch;
  const Program program = run_program("comm --ranks 2,3 --sizes 1K,300K --repeats 3 --output out.jsonl", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  const std::string text = scratch.read("out.jsonl");
  std::vector<Json> rows;
  for (std::size_t position = 0; position < text.size();) rows.push_back(Json::parse_next(text, position));
  ASSERT_EQ(rows.size(), 16u);  // on 2 and 3 ranks: 4 operations of 2 sizes
  EXPECT_EQ(rows[0].at("ranks").as_integer(), 2);
  EXPECT_EQ(rows[15].at("ranks").as_integer(), 3);
  for (const Json& row : rows) {
    EXPECT_EQ(row.at("status").as_string(), "ok");
    EXPECT_EQ(row.at("check").at("wrong").as_integer(), 0);
    EXPECT_GT(row.at("check").at("values").as_integer(), 0);
    EXPECT_EQ(row.at("statistics").at("n").as_integer(), 3);
    EXPECT_EQ(row.at("command").as_string(), "strobe comm --ranks 2,3 --sizes 1K,300K --repeats 3 --output out.jsonl");
    EXPECT_EQ(!row.at("time_over_plain_mpi").is_null(), row.at("operation").as_string() == "all-reduce");
    EXPECT_NE(row.find("environment"), nullptr);
  }
  EXPECT_NE(program.output.find("bus GB/s"), std::string::npos) << program.output;
  EXPECT_NE(scratch.read("out.md").find("![all-reduce"), std::string::npos);
  EXPECT_NE(scratch.read("out-all-reduce.svg").find("<svg"), std::string::npos);
  EXPECT_EQ(scratch.entries(), 6u);
}

TEST(CommCommand, InsideAJobItMeasuresThatJob) {
  if (!has_ranks()) GTEST_SKIP() << "no MPI in this build, or no mpirun";
  const Scratch scratch;
  const Program program =
      run_program("launch -n 2 -- comm --operations broadcast --sizes 1K --repeats 2 --output out.jsonl", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("[0] broadcast "), std::string::npos) << program.output;
  EXPECT_EQ(program.output.find("[1]"), std::string::npos) << program.output;
}

TEST(CommCommand, InterruptedItNamesTheFileOfItsRows) {
  if (!has_ranks()) GTEST_SKIP() << "no MPI in this build, or no mpirun";
  const Scratch scratch;
  std::ofstream(scratch.path() / "out.jsonl") << "{\"kind\":\"earlier\"}\n";
  std::ofstream(scratch.path() / "out.md") << fmt::format(
      "# Collectives\n\n![broadcast, all](out-broadcast.svg)\n\n<!-- strobe charts: -broadcast.svg {:08x}; -->\n",
      crc32("<svg/>"));
  std::ofstream(scratch.path() / "out-broadcast.svg") << "<svg/>";
  // The first row takes moments, the second about a minute.
  Background program("comm --ranks 2 --operations broadcast --sizes 1K,100M --repeats 1000 --output out.jsonl", scratch,
                     "errors");
  ASSERT_TRUE(becomes([&] { return scratch.read("out.jsonl").find("ok") != std::string::npos; }));
  program.send(SIGINT);
  EXPECT_EQ(program.wait(), 130);
  EXPECT_EQ(scratch.read("errors"), "strobe: comm: ended by a signal; rows measured so far are in out.jsonl\n");
  EXPECT_EQ(scratch.entries(), 2u);
}

TEST(CommCommand, RejectsBadFlags) {
  const auto refused = [](const std::string& flags, const std::string& says) {
    const Program program = run_program("comm " + flags);
    EXPECT_EQ(program.code, 2);
    EXPECT_EQ(program.errors.substr(0, 8 + says.size()), "strobe: " + says);
  };
  refused("--operations sum", "--operations sum: valid: all-reduce, broadcast, reduce-scatter, all-gather");
  refused("--sizes 3", "--sizes 3: valid: 4 bytes (one fp32) or more");
  refused("--ranks 0", "--ranks 0: not a whole number in the valid range 1..1024");
  refused("--engine smoke", "--engine smoke: valid: mpi, nccl");
  refused("--output out.txt", "--output out.txt: valid: a file that ends in .jsonl or .json");
  refused("--operations broadcast,broadcast",
          "--operations broadcast,broadcast: broadcast is listed twice; valid: each once\n");
  refused("--sizes 1K,1024", "--sizes 1K,1024: 1024 is listed twice; valid: each once\n");
  refused("--device cuda", "--device cuda: ");
}

// mpirun is not in PATH. An attempt to start ranks prints the error of the first command.
TEST(CommCommand, RejectsBeforeRanksAreStarted) {
  if (comm::why_no_mpi()) GTEST_SKIP() << "no MPI in this build";
  const auto refused = [](const std::string& flags, const std::string& says, int code = 2) {
    const Scratch scratch;
    const Program program = run_program("comm " + flags, scratch, "PATH=/nowhere");
    EXPECT_EQ(program.code, code);
    EXPECT_EQ(program.errors.substr(0, 8 + says.size()), "strobe: " + says);
    EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << program.errors;
    EXPECT_EQ(scratch.entries(), 0u);
  };
  refused("--sizes 1K", "launch: no mpirun in PATH");
  refused("--output /nowhere/out.jsonl", "--output /nowhere/out.jsonl: cannot be written: No such file or directory");
  refused("--sizes 200T,100T --ranks 3,2", "--sizes: none fits: 102400.00 GiB on 2 ranks: needs 629145600 MiB on all",
          3);
}

// Only rank 0 opens the file. All ranks end with its error, which the launcher prints once.
TEST(CommCommand, PrintsAnErrorOfRankZeroOnce) {
  if (!has_ranks()) GTEST_SKIP() << "no MPI in this build, or no mpirun";
  const Program program = run_program("launch -n 2 -- comm --sizes 1K --output /nowhere/out.jsonl");
  EXPECT_EQ(program.code, 2);
  EXPECT_EQ(program.errors,
            "strobe: launch: all 2 ranks: --output /nowhere/out.jsonl: cannot be written: No such file or directory\n");
}

TEST(CommCommand, EarlierFilesRemainIfNothingIsMeasured) {
  if (!has_ranks()) GTEST_SKIP() << "no MPI in this build, or no mpirun";
  const Scratch scratch;
  std::ofstream(scratch.path() / "out.jsonl") << "{\"kind\":\"earlier\"}\n";
  const Program program =
      run_program("launch -n 2 -- comm --operations broadcast --sizes 100T --output out.jsonl", scratch);
  EXPECT_EQ(program.code, 3) << program.errors;
  EXPECT_NE(program.errors.find("[0] strobe: comm: nothing was measured on 2 ranks: needs"), std::string::npos)
      << program.errors;
  EXPECT_EQ(scratch.read("out.jsonl"), "{\"kind\":\"earlier\"}\n");
  EXPECT_EQ(scratch.entries(), 1u);
}

TEST(CommCommand, ChartsOfAnEarlierRunAreRemoved) {
  if (!has_ranks()) GTEST_SKIP() << "no MPI in this build, or no mpirun";
  const Scratch scratch;
  const std::string command = "comm --ranks 2 --sizes 1K --repeats 2 --output out.jsonl --operations ";
  ASSERT_EQ(run_program(command + "broadcast,all-gather", scratch).code, 0);
  std::ofstream(scratch.path() / "out-mine.svg") << "not comm's";
  ASSERT_EQ(run_program(command + "all-gather,all-reduce", scratch).code, 0);
  EXPECT_EQ(scratch.read("out.md").find("broadcast"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "out-broadcast.svg"));
  for (const char* name : {"out.jsonl", "out-all-gather.svg", "out-all-reduce.svg", "out-mine.svg"}) {
    EXPECT_TRUE(std::filesystem::exists(scratch.path() / name)) << name;
  }
}

TEST(CommCommand, RejectedSizesAreRowsNextToMeasuredOnes) {
  if (!has_ranks()) GTEST_SKIP() << "no MPI in this build, or no mpirun";
  const Scratch scratch;
  const Program program =
      run_program("comm --ranks 2 --operations broadcast --sizes 100T,1K --repeats 2 --output out.jsonl", scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  const std::string text = scratch.read("out.jsonl");
  std::size_t position = 0;
  EXPECT_EQ(Json::parse_next(text, position).at("status").as_string(), "refused");
  EXPECT_EQ(Json::parse_next(text, position).at("status").as_string(), "ok");
}

}  // namespace
}  // namespace strobe::test
