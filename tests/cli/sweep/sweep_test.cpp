// Tests `strobe sweep` end to end: cells and rows, resuming from a file, failing cells, and rejected input.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "bench/fake_python.h"
#include "cli/background.h"
#include "cli/run_program.h"
#include "core/json.h"

namespace strobe::test {
namespace {

// Flags for cells of a few milliseconds.
constexpr const char* kTiny = "--batch 1 --heads 2 --emb 16 --dtype fp32 --repeats 1 --time-limit 0.01 --quick ";

std::string tiny(const std::string& more) { return std::string("sweep ") + kTiny + more; }

std::vector<Json> rows_in(const Scratch& scratch, const std::string& name) {
  std::istringstream lines(scratch.read(name));
  std::vector<Json> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(Json::parse(line));
  return rows;
}

// Returns "SEQUENCE IMPLEMENTATION STATUS" of every row, sorted, for example "16 flash2 ok".
std::multiset<std::string> cells_in(const Scratch& scratch, const std::string& name) {
  std::multiset<std::string> cells;
  for (const Json& row : rows_in(scratch, name)) {
    cells.insert(row.at("config").at("seq_len").dump() + " " + row.at("implementation").as_string() + " " +
                 row.at("status").as_string());
  }
  return cells;
}

const Json& row_of(const std::vector<Json>& rows, std::int64_t seq, const std::string& implementation) {
  for (const Json& row : rows) {
    if (row.at("config").at("seq_len").as_integer() == seq && row.at("implementation").as_string() == implementation) {
      return row;
    }
  }
  throw std::runtime_error("no such row");
}

TEST(Sweep, EveryCellIsARowWithAllFieldsOfBench) {
  const Scratch scratch;
  const Program program = run_program(tiny("--seq_len 16,24 --causal both --impl Flash2,Pytorch"), scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("[8/8] ok "), std::string::npos) << program.output;
  EXPECT_NE(program.output.find("8 cells: 8 ok\nwritten: sweep.jsonl\n"), std::string::npos) << program.output;
  const std::vector<Json> rows = rows_in(scratch, "sweep.jsonl");
  ASSERT_EQ(rows.size(), 8u);
  for (const Json& row : rows) {
    EXPECT_EQ(row.at("status").as_string(), "ok");
    EXPECT_GT(row.at("forward").at("time(s)").as_number(), 0);
    EXPECT_GT(row.at("peak_memory_usage(MB)").as_number(), 0);
    EXPECT_EQ(row.at("config").at("shrink").as_integer(), 1);
    EXPECT_TRUE(row.at("environment").find("cpu"));
    EXPECT_EQ(row.at("sweep").at("settings").as_string(), "--quick --repeats=1 --time-limit=0.01");
  }
}

// The command of a row describes its case completely: bench parses the same configuration from it.
TEST(Sweep, TheCommandOfARowRepeatsIt) {
  const Scratch scratch;
  const Program program = run_program(
      tiny("--seq_len 24 --num_kv_heads 1 --causal on --window 8:0 --softcap 5 --alibi --bias 1hqk --bias_gradient "
           "--sinks --dropout 0.25 --lengths 20 --align top_left --threads 1 --pass both"),
      scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("\n1 cell: 1 ok\n"), std::string::npos) << program.output;
  const Json row = rows_in(scratch, "sweep.jsonl").at(0);
  const std::string command = row.at("command").as_string();
  ASSERT_EQ(command.rfind("strobe bench ", 0), 0u) << command;
  const Program again = run_program(command.substr(7), scratch);
  ASSERT_EQ(again.code, 0) << again.errors;
  Json config = Json::parse(scratch.read("benchmark_result.json")).at("config");
  EXPECT_EQ(config.set("shrink", 1).dump(), row.at("config").dump());
}

TEST(Sweep, NamedGridsHaveTheirCells) {
  const PythonScope without_python(std::nullopt);
  for (const auto& [name, cells] :
       {std::pair{"lab5", 96}, std::pair{"lab5-axes", 24}, std::pair{"lab5-small", 28}, std::pair{"paper", 72},
        std::pair{"attention", 40}, std::pair{"flash", 160}, std::pair{"leaderboard", 2}, std::pair{"cpu", 32},
        std::pair{"cpu-speed", 40}, std::pair{"gpu-speed", 184}, std::pair{"gpu-speed-quick", 42},
        std::pair{"hopper", 219}, std::pair{"hopper-quick", 114}, std::pair{"hopper-options", 56},
        std::pair{"features-cpu", 80}, std::pair{"features-gpu", 80}, std::pair{"noise", 20}}) {
    const Scratch scratch;
    const Program program = run_program(std::string("sweep --dry-run --quick ") + "--grid " + name, scratch);
    ASSERT_EQ(program.code, 0) << program.errors;
    const std::string last = "\n" + std::to_string(cells) + " cells, " + std::to_string(cells) + " to measure";
    EXPECT_NE(program.output.find(last), std::string::npos) << name << program.output.substr(program.output.size() / 2);
    EXPECT_EQ(scratch.entries(), 0u);
  }
}

TEST(Sweep, PeersOfAGridNeedPyTorch) {
  const Scratch scratch;
  const std::string flags = " --dry-run --quick";
  {
    const FakePython python("*none*) ;;");
    const std::string all = run_program("sweep --grid attention" + flags, scratch).output;
    EXPECT_NE(all.find("\n100 cells, 100 to measure"), std::string::npos) << all;
    EXPECT_EQ(all.find("skipped"), std::string::npos) << all;
    const std::string flash = run_program("sweep --grid flash" + flags, scratch).output;
    EXPECT_NE(flash.find("\n320 cells, 320 to measure"), std::string::npos) << flash;
    const std::string named = run_program("sweep --grid attention --impl Flash2" + flags, scratch).output;
    EXPECT_NE(named.find("\n20 cells, 20 to measure"), std::string::npos) << named;
  }
  const PythonScope without_pytorch("#!/bin/sh\nexit 1\n");
  const std::string rest = run_program("sweep --grid attention" + flags, scratch).output;
  EXPECT_NE(rest.find("\n40 cells, 40 to measure"), std::string::npos) << rest;
  EXPECT_NE(rest.find("note: torch-naive, torch-compile, torch-sdpa: no PyTorch in "), std::string::npos) << rest;
  EXPECT_NE(rest.find(": 60 cells skipped; STROBE_PYTHON names another interpreter"), std::string::npos) << rest;
}

// A sweep without PyTorch can resume a result file that has rows of PyTorch, and keeps them.
TEST(Sweep, AFileWithRowsOfPeersIsContinuedWithoutPyTorch) {
  const Scratch scratch;
  std::ofstream(scratch.path() / "mine.grid") << "run --repeats 1 --time-limit 0.01 --quick --check=off\n"
                                                 "peers torch-sdpa\ncells --batch 1 --heads 2 --emb 16 --seq 16,24\n";
  {
    const FakePython python("*none*) ;;");
    ASSERT_EQ(run_program("sweep ./mine.grid", scratch).code, 0);
  }
  const std::multiset<std::string> cells = {"16 flash2 ok", "16 torch-sdpa ok", "24 flash2 ok", "24 torch-sdpa ok"};
  EXPECT_EQ(cells_in(scratch, "sweep_mine.jsonl"), cells);
  const Program again = run_program("sweep ./mine.grid", scratch, "STROBE_PYTHON=/nonexistent");
  EXPECT_EQ(again.code, 0) << again.errors;
  EXPECT_NE(again.output.find("0 of 2 cells to measure"), std::string::npos) << again.output;
  EXPECT_EQ(cells_in(scratch, "sweep_mine.jsonl"), cells);
}

TEST(Sweep, DryRunShowsTimeMemoryAndWhatWillNotFit) {
  const Scratch scratch;
  const Program program =
      run_program(tiny("--seq_len 16,512 --impl Flash2,Pytorch --memory-limit 200K --dry-run"), scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  for (const char* text : {"call ms", "cell s", "peak MiB", "will not fit in memory", "4 cells, 4 to measure"}) {
    EXPECT_NE(program.output.find(text), std::string::npos) << program.output;
  }
}

TEST(Sweep, FlagsReplaceSettingsOfTheGrid) {
  const Scratch scratch;
  std::ofstream(scratch.path() / "mine.grid") << "about mine\nrun --repeats 9\ncommon --batch 1 --heads 2 --emb 16\n"
                                                 "cells --seq_len 16,24 --impl Flash2,Pytorch\ncells --seq_len 32\n";
  const Program program = run_program("sweep ./mine.grid --impl Flash2 --repeats 1 --quick --time-limit 0.01", scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_EQ(cells_in(scratch, "sweep_mine.jsonl"),
            (std::multiset<std::string>{"16 flash2 ok", "24 flash2 ok", "32 flash2 ok"}));
}

TEST(Sweep, ImpossibleCombinationsAreSkippedWithAMessage) {
  const Scratch scratch;
  const Program program = run_program(
      "sweep --batch 1 --heads 2 --emb 16,17,2000 --seq_len 16,24 --dtype fp32 --repeats 1 --time-limit 0.01 --quick",
      scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("note: --emb_dim 17: not a multiple of --num_heads 2: 2 cells skipped"),
            std::string::npos)
      << program.output;
  EXPECT_NE(program.output.find("head dimensions 1000 and 1000; it takes up to 256"), std::string::npos)
      << program.output;
  EXPECT_NE(program.output.find("4 cells: 2 ok, 2 unsupported"), std::string::npos) << program.output;
}

TEST(Sweep, ShardsTogetherAreTheWholeSweep) {
  const Scratch scratch;
  std::multiset<std::string> together;
  for (const char* shard : {"1/3", "2/3", "3/3"}) {
    const Program program = run_program(tiny("--seq_len 16,20,24,28 --shard ") + shard, scratch);
    ASSERT_EQ(program.code, 0) << program.errors;
    together.merge(cells_in(scratch, std::string("sweep_") + shard[0] + "of3.jsonl"));
  }
  EXPECT_EQ(together, (std::multiset<std::string>{"16 flash2 ok", "20 flash2 ok", "24 flash2 ok", "28 flash2 ok"}));
}

TEST(Sweep, JsonFolderHasTheSourceScriptsNames) {
  const Scratch scratch;
  const std::string command = tiny("--seq_len 32 --shrink 2 --causal both --impl Flash2,Pytorch --json-dir cells");
  ASSERT_EQ(run_program(command, scratch).code, 0);
  for (const char* name :
       {"result_bs1_sl16_nh2_ed16_Flash2_causal.json", "result_bs1_sl16_nh2_ed16_Pytorch_causal.json",
        "result_bs1_sl16_nh2_ed16_Flash2_causal_causal.json", "result_bs1_sl16_nh2_ed16_Pytorch_causal_causal.json"}) {
    const Json json = Json::parse(scratch.read(std::string("cells/") + name));
    EXPECT_GT(json.at("forward").at("time(s)").as_number(), 0) << name;
    EXPECT_EQ(json.at("config").at("shrink").as_integer(), 2);
  }
  // The next sweep writes files that are missing because a sweep was killed.
  std::filesystem::remove(scratch.path() / "cells" / "result_bs1_sl16_nh2_ed16_Flash2_causal.json");
  ASSERT_EQ(run_program(command, scratch).code, 0);
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "cells" / "result_bs1_sl16_nh2_ed16_Flash2_causal.json"));
  EXPECT_EQ(rows_in(scratch, "sweep.jsonl").size(), 4u);
}

TEST(Sweep, ResumesAfterATornLineAndMeasuresNothingTwice) {
  const Scratch scratch;
  const std::string command = tiny("--seq_len 16,20,24");
  ASSERT_EQ(run_program(command, scratch).code, 0);
  const std::string whole = scratch.read("sweep.jsonl");
  const std::size_t second = whole.find('\n') + 1;
  std::ofstream(scratch.path() / "sweep.jsonl") << whole.substr(0, second + 100);
  const Program program = run_program(command, scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("incomplete and is removed, 100 bytes"), std::string::npos) << program.output;
  EXPECT_NE(program.output.find("2 of 3 cells to measure"), std::string::npos) << program.output;
  EXPECT_EQ(scratch.read("sweep.jsonl").substr(0, second), whole.substr(0, second));
  EXPECT_EQ(rows_in(scratch, "sweep.jsonl").size(), 3u);
  EXPECT_NE(run_program(command, scratch).output.find("0 of 3 cells"), std::string::npos);
}

TEST(Sweep, AFileOfAnotherSweepIsRejectedAndKept) {
  const Scratch scratch;
  ASSERT_EQ(run_program(tiny("--seq_len 16,20"), scratch).code, 0);
  const std::string before = scratch.read("sweep.jsonl");
  for (const auto& [more, says] :
       {std::pair{"--seq_len 16,24", "line 2 is not a cell of this sweep: flash2, batch_size 1, seq_len 20"},
        std::pair{"--seq_len 16,20 --seed 2", "was measured with \"--quick --repeats=1 --time-limit=0.01\", but"},
        std::pair{"--seq_len 16,20 --shrink 2", "line 1 is not a cell"},
        std::pair{"--seq_len 16,20 --dry-run --causal", "line 1 is not a cell"}}) {
    const Program program = run_program(tiny(more), scratch);
    EXPECT_EQ(program.code, 2) << more;
    EXPECT_NE(program.errors.find(says), std::string::npos) << program.errors;
    EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << program.errors;
    EXPECT_EQ(scratch.read("sweep.jsonl"), before);
  }
  std::ofstream(scratch.path() / "sweep.jsonl", std::ios::app) << before;
  EXPECT_NE(run_program(tiny("--seq_len 16,20"), scratch).errors.find("line 3 repeats a row"), std::string::npos);
  std::ofstream(scratch.path() / "sweep.jsonl") << "{\"some\":\"thing\"}\n";
  EXPECT_NE(run_program(tiny("--seq_len 16,20"), scratch).errors.find("line 1 is not a row of a sweep"),
            std::string::npos);
}

TEST(Sweep, OutOfMemoryIsARow) {
  const Scratch scratch;
  const Program program =
      run_program(tiny("--seq_len 16,512 --impl Flash2,Pytorch --memory-limit 200K --threads 1"), scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_EQ(cells_in(scratch, "sweep.jsonl"),
            (std::multiset<std::string>{"16 flash2 ok", "16 standard ok", "512 flash2 oom", "512 standard oom"}));
  const std::vector<Json> rows = rows_in(scratch, "sweep.jsonl");
  EXPECT_EQ(row_of(rows, 512, "flash2").at("free_bytes").as_integer(), 200 * 1024);
  EXPECT_GT(row_of(rows, 512, "flash2").at("asked_bytes").as_integer(), 200 * 1024);
}

// Writes a program that fails in some cells and runs the real program in all others.
void write_faulty_program(const Scratch& scratch, const std::string& cases) {
  const std::filesystem::path path = scratch.path() / "faulty";
  std::ofstream(path) << "#!/bin/sh\ncase \"$*\" in\n" << cases << "\nesac\nexec '" STROBE_PROGRAM "' \"$@\"\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

TEST(Sweep, CrashesAndHangsAffectOnlyTheirRows) {
  const Scratch scratch;
  write_faulty_program(scratch, R"(
*"--seq_len 17 "*flash2,standard*) echo '{"step":"check","implementation":"standard"}'; kill -SEGV $$ ;;
*"--seq_len 18 "*flash2*) echo '{"step":"measure","implementation":"flash2"}'; sleep 100 ;;
*"--seq_len 19 "*) kill -ABRT $$ ;;
*"--seq_len 20 "*) echo nonsense; sleep 100 ;;
*"--seq_len 21 "*) echo why >&2; exit 5 ;;)");
  const Program program = run_program(
      tiny("--seq_len 16,17,18,19,20,21,22 --impl Flash2,Pytorch --cell-limit 10 --program ./faulty"), scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_EQ(cells_in(scratch, "sweep.jsonl"),
            (std::multiset<std::string>{"16 flash2 ok", "16 standard ok", "17 flash2 ok", "17 standard crashed",
                                        "18 flash2 timeout", "18 standard ok", "19 flash2 crashed",
                                        "19 standard crashed", "20 flash2 crashed", "20 standard crashed",
                                        "21 flash2 crashed", "21 standard crashed", "22 flash2 ok", "22 standard ok"}));
  const std::vector<Json> rows = rows_in(scratch, "sweep.jsonl");
  EXPECT_EQ(row_of(rows, 17, "standard").at("signal").as_integer(), SIGSEGV);
  EXPECT_TRUE(row_of(rows, 17, "standard").at("forward").at("time(s)").is_null());
  EXPECT_TRUE(row_of(rows, 17, "standard").at("environment").find("cpu"));
  EXPECT_EQ(row_of(rows, 18, "flash2").at("reason").as_string(), "flash2: took more than 10 s");
  EXPECT_EQ(row_of(rows, 19, "flash2").at("signal").as_integer(), SIGABRT);
  EXPECT_NE(row_of(rows, 20, "flash2").at("reason").as_string().find("nonsense"), std::string::npos);
  EXPECT_EQ(row_of(rows, 21, "flash2").at("reason").as_string(), "flash2: the child ended with exit code 5: why");
}

TEST(Sweep, ASignalReportsHowManyRowsAreWritten) {
  const Scratch scratch;
  write_faulty_program(scratch, R"(*"--seq_len 20 "*) kill -INT $PPID; exec sleep 100 ;;)");
  const Program program = run_program(tiny("--seq_len 16,20 --program ./faulty"), scratch, "env --default-signal=INT");
  EXPECT_EQ(program.code, 130);
  EXPECT_EQ(rows_in(scratch, "sweep.jsonl").size(), 1u);
  EXPECT_EQ(program.errors,
            "strobe: sweep: ended by a signal; 1 of 2 rows saved in sweep.jsonl; the same command resumes\n");
}

TEST(Sweep, RetryMeasuresOnlyFailedCells) {
  const Scratch scratch;
  write_faulty_program(scratch, R"(*"--seq_len 16 "*) exit 5 ;;)");
  const std::string command = tiny("--seq_len 16,20,512 --memory-limit 200K --threads 1 ");
  const Program first = run_program(command + "--program ./faulty", scratch);
  ASSERT_EQ(first.code, 0) << first.errors;
  EXPECT_NE(first.output.find("1 failed, which the same command with --retry measures"), std::string::npos)
      << first.output;
  EXPECT_NE(run_program(command, scratch).output.find("0 of 3 cells"), std::string::npos);
  const std::string before = scratch.read("sweep.jsonl");
  EXPECT_NE(run_program(command + "--retry --dry-run", scratch).output.find("3 cells, 1 to measure"),
            std::string::npos);
  EXPECT_EQ(scratch.read("sweep.jsonl"), before);
  const Program again = run_program(command + "--retry", scratch);
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_NE(again.output.find("1 of 3 cells to measure"), std::string::npos) << again.output;
  EXPECT_EQ(again.output.find("--retry"), std::string::npos) << again.output;
  EXPECT_EQ(cells_in(scratch, "sweep.jsonl"),
            (std::multiset<std::string>{"16 flash2 ok", "20 flash2 ok", "512 flash2 oom"}));
  const std::string kept = before.substr(before.find('\n') + 1);  // every row except the failed one, byte by byte
  EXPECT_EQ(scratch.read("sweep.jsonl").substr(0, kept.size()), kept);
}

// --retry removes failed rows and measures their cells again. Without PyTorch it keeps failed rows of PyTorch.
TEST(Sweep, RetryKeepsRowsOfPeersWithoutPyTorch) {
  const Scratch scratch;
  std::ofstream(scratch.path() / "mine.grid") << "run --repeats 1 --time-limit 0.01 --quick --check=off\n"
                                                 "peers torch-sdpa\ncells --batch 1 --heads 2 --emb 16 --seq 16,24\n";
  const std::string command = "sweep ./mine.grid --program ./faulty ";
  write_faulty_program(scratch, R"(*"--seq_len 16 "*) exit 5 ;;)");
  {
    const FakePython python(R"(*\"prepare\"*) echo '{"ok":false,"status":"crashed","reason":"why"}' ;;)");
    ASSERT_EQ(run_program(command, scratch).code, 0);
  }
  EXPECT_EQ(cells_in(scratch, "sweep_mine.jsonl"),
            (std::multiset<std::string>{"16 flash2 crashed", "16 torch-sdpa crashed", "24 flash2 ok",
                                        "24 torch-sdpa crashed"}));
  const Program again = run_program("sweep ./mine.grid --retry", scratch, "STROBE_PYTHON=/nonexistent");
  EXPECT_EQ(again.code, 0) << again.errors;
  EXPECT_EQ(
      cells_in(scratch, "sweep_mine.jsonl"),
      (std::multiset<std::string>{"16 flash2 ok", "16 torch-sdpa crashed", "24 flash2 ok", "24 torch-sdpa crashed"}));
}

TEST(Sweep, ExitCodeIs3IfNoCellIsOk) {
  const Scratch scratch;
  const std::string command = tiny("--seq_len 16,20 --program /bin/false");
  for (int i = 0; i < 2; ++i) {  // the first time measured, then read from the file
    const Program program = run_program(command, scratch);
    EXPECT_EQ(program.code, 3);
    EXPECT_EQ(program.errors, "strobe: sweep: no cell is ok; the rows in sweep.jsonl give the reasons\n");
  }
}

TEST(Sweep, AnUnknownInstructionSetIsRejectedBeforeAnythingIsWritten) {
  const Scratch scratch;
  const Program program = run_program(tiny("--seq_len 16"), scratch, "STROBE_CPU_ISA=bogus");
  EXPECT_EQ(program.code, 2);
  EXPECT_EQ(program.output, "");
  EXPECT_EQ(program.errors.rfind("strobe: sweep: STROBE_CPU_ISA is 'bogus'; this machine and build have generic", 0),
            0u)
      << program.errors;
  EXPECT_EQ(scratch.entries(), 0u);
  EXPECT_EQ(run_program(tiny("--seq_len 16 --impl standard"), scratch, "STROBE_CPU_ISA=bogus").code, 0);
}

TEST(Sweep, ExitCodeIs2IfAllCellsAreUnsupported) {
  const Scratch scratch;
  EXPECT_EQ(run_program("sweep --batch 1 --heads 1 --emb 600 --seq_len 16 --dtype fp32 --quick", scratch).code, 2);
  EXPECT_EQ(cells_in(scratch, "sweep.jsonl"), (std::multiset<std::string>{"16 flash2 unsupported"}));
}

TEST(Sweep, OneCellThatDoesNotFitIsExitCode3AsInBench) {
  const Scratch scratch;
  const std::string problem = "--heads 1 --emb 600 --seq_len 512 --dtype fp32 --quick --memory-limit 200K ";
  for (const char* order : {"flash2,standard", "standard,flash2"}) {
    EXPECT_EQ(run_program("bench --batch_size 1 " + problem + "--impl " + order, scratch).code, 3) << order;
  }
  EXPECT_EQ(run_program("sweep --batch 1 " + problem + "--impl flash2,standard", scratch).code, 3);
  EXPECT_EQ(cells_in(scratch, "sweep.jsonl"),
            (std::multiset<std::string>{"512 flash2 unsupported", "512 standard oom"}));
}

TEST(Sweep, AWrongResultIsARowWithoutTimesAndExitCode1) {
  const FakePython zeros(R"(*\"results\"*) head -c 100000 /dev/zero >&3; echo '{"ok":true}' ;;)");
  const Scratch scratch;
  const Program program = run_program(tiny("--seq_len 48 --impl Flash2,torch-sdpa"), scratch);
  EXPECT_EQ(program.code, 1) << program.errors;
  EXPECT_EQ(cells_in(scratch, "sweep.jsonl"), (std::multiset<std::string>{"48 flash2 ok", "48 torch-sdpa wrong"}));
}

TEST(Sweep, OnePythonProcessServesThePeersOfAllProblems) {
  const FakePython python("*none*) ;;");
  const Scratch scratch;
  const Program program =
      run_program(tiny("--seq_len 16,17,18 --impl Flash2,torch-sdpa,torch-math --check=off"), scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  for (const Json& row : rows_in(scratch, "sweep.jsonl")) {
    EXPECT_EQ(row.at("status").as_string(), "ok") << row.dump();
    EXPECT_EQ(row.at("command").as_string().find("lent"), std::string::npos) << row.at("command").dump();
  }
  EXPECT_EQ(python.starts(), 1);
}

// Rows of a sweep without --launches count as launch 1, so a sweep with --launches 3 measures only the other two.
TEST(Sweep, EveryLaunchHasItsRowsAndCompareFindsThem) {
  const Scratch scratch;
  const std::string command = tiny("--seq_len 16,24 --impl Flash2,Pytorch ");
  ASSERT_EQ(run_program(command, scratch).code, 0);
  const Program more = run_program(command + "--launches 3", scratch);
  ASSERT_EQ(more.code, 0) << more.errors;
  EXPECT_NE(more.output.find("8 of 12 rows to measure"), std::string::npos) << more.output;
  EXPECT_NE(more.output.find("[12/12] ok "), std::string::npos) << more.output;
  EXPECT_NE(more.output.find(", launch 3 of 3: forward"), std::string::npos) << more.output;
  EXPECT_NE(more.output.find("12 rows: 12 ok\n"), std::string::npos) << more.output;
  const std::vector<Json> rows = rows_in(scratch, "sweep.jsonl");
  ASSERT_EQ(rows.size(), 12u);
  EXPECT_EQ(rows[11].at("launch").dump(), R"({"number":3,"of":3})");
  const Program again = run_program(command + "--launches 3", scratch);
  EXPECT_NE(again.output.find("0 of 12 rows to measure"), std::string::npos) << again.output;
  const Program fewer = run_program(command + "--launches 2", scratch);
  EXPECT_EQ(fewer.code, 2);
  EXPECT_NE(fewer.errors.find("line 9 is not a cell of this sweep"), std::string::npos) << fewer.errors;
  const Program same = run_program("compare sweep.jsonl sweep.jsonl --threshold 900%", scratch);
  EXPECT_EQ(same.code, 0) << same.errors;
  EXPECT_NE(same.output.find("only 3 launches"), std::string::npos) << same.output;
  EXPECT_NE(run_program(command + "--launches 2 --json-dir d --output n", scratch).errors.find("one file per cell"),
            std::string::npos);
}

TEST(Sweep, AFlagWithoutEffectIsReportedOnlyIfNoCellUsesIt) {
  const Scratch scratch;
  const std::string flags = "--seq_len 16 --align top_left --dry-run ";
  const std::string note = "--align without --causal, --window or --alibi has no effect";
  EXPECT_NE(run_program(tiny(flags), scratch).output.find(note), std::string::npos);
  EXPECT_EQ(run_program(tiny(flags + "--causal both"), scratch).output.find(note), std::string::npos);
}

TEST(Sweep, DryRunAcceptsPeers) {
  const Scratch scratch;
  const Program program = run_program(tiny("--seq_len 16 --impl onednn,torch-sdpa --dry-run"), scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("2 cells, 2 to measure"), std::string::npos) << program.output;
}

TEST(Sweep, LentPythonMustBeASocket) {
  const Scratch scratch;
  const Program program = run_program("bench --impl torch-sdpa --events --lent-python 1", scratch);
  EXPECT_EQ(program.code, 2);
  EXPECT_NE(program.errors.find("--lent-python 1: descriptor 3 is not a socket"), std::string::npos) << program.errors;
}

// The shared Python process crashes in torch-math of the second problem. A new process measures torch-sdpa of that
// problem. The third problem starts another shared process.
TEST(Sweep, PythonIsRestartedAfterItHasFailed) {
  const FakePython python(R"(*\"seqlen_q\":17*prepare*torch-math*) echo 'fatal error' >&2; kill -SEGV $$ ;;)");
  const Scratch scratch;
  const Program program =
      run_program(tiny("--seq_len 16,17,18,19 --impl torch-math,torch-sdpa --check=off --pass forward"), scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_EQ(
      cells_in(scratch, "sweep.jsonl"),
      (std::multiset<std::string>{"16 torch-math ok", "16 torch-sdpa ok", "17 torch-math crashed", "17 torch-sdpa ok",
                                  "18 torch-math ok", "18 torch-sdpa ok", "19 torch-math ok", "19 torch-sdpa ok"}));
  const std::string reason = row_of(rows_in(scratch, "sweep.jsonl"), 17, "torch-math").at("reason").as_string();
  EXPECT_NE(reason.find("died of signal 11"), std::string::npos) << reason;
  EXPECT_NE(reason.find("fatal error"), std::string::npos) << reason;
  EXPECT_EQ(python.starts(), 3);
}

TEST(Sweep, AMissingPeerIsAnUnsupportedRow) {
  const Scratch scratch;
  const Program program =
      run_program(tiny("--seq_len 16 --impl Flash2,torch-sdpa"), scratch, "STROBE_PYTHON=/nonexistent");
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_EQ(cells_in(scratch, "sweep.jsonl"),
            (std::multiset<std::string>{"16 flash2 ok", "16 torch-sdpa unsupported"}));
}

// The first child measures the ceilings once per type; every row has them.
TEST(Sweep, CeilingsAreInEveryRow) {
  const Scratch scratch;
  ASSERT_EQ(run_program("sweep --batch 1 --heads 2 --emb 16 --dtype fp32 --repeats 1 --time-limit 0.01 --seq_len 16,20",
                        scratch)
                .code,
            0);
  const std::vector<Json> rows = rows_in(scratch, "sweep.jsonl");
  ASSERT_EQ(rows.size(), 2u);
  const auto rate = [&](std::size_t i) {
    return rows[i].at("environment").at("ceilings").at("matrix_product_flop_per_s").at("fp32").as_number();
  };
  EXPECT_GT(rate(0), 0);
  EXPECT_EQ(rate(0), rate(1));
  EXPECT_EQ(rows[0].at("command").as_string().find("--quick"), std::string::npos);
  EXPECT_NE(rows[1].at("command").as_string().find("--quick"), std::string::npos);
}

// ulimit -f 14 limits the file to 7 or 14 KB, too little for all five rows. The row that was partly written is removed.
TEST(Sweep, AFullDiskIsExitCode3AndLeavesWholeRows) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not start with a limit on file sizes";
#endif
  const Scratch scratch;
  const std::string limited = "cd '" + scratch.path().string() + "' && (ulimit -f 14; '" STROBE_PROGRAM "' " +
                              tiny("--seq_len 16,20,24,28,32") + " >/dev/null 2>err; echo $? >code)";
  ASSERT_EQ(std::system(limited.c_str()), 0);
  EXPECT_EQ(scratch.read("code"), "3\n");
  EXPECT_NE(scratch.read("err").find("writing failed"), std::string::npos) << scratch.read("err");
  const std::size_t rows = rows_in(scratch, "sweep.jsonl").size();
  EXPECT_TRUE(scratch.read("sweep.jsonl").empty() || scratch.read("sweep.jsonl").back() == '\n');
  EXPECT_LT(rows, 5u);
  ASSERT_EQ(run_program(tiny("--seq_len 16,20,24,28,32"), scratch).code, 0);
  EXPECT_EQ(rows_in(scratch, "sweep.jsonl").size(), 5u);
}

TEST(Sweep, ATerminalShowsABarWithTheTimeLeft) {
  const Scratch scratch;
  const std::string text = run_on_terminal(tiny("--seq_len 16,20 --memory-limit 40K"), scratch);
  EXPECT_NE(text.find("[------------------------] 0/2, "), std::string::npos) << text;
  EXPECT_NE(text.find(" s left; batch 1, 2 heads x 8, sequence 16"), std::string::npos) << text;
  EXPECT_NE(text.find("2 cells: "), std::string::npos) << text;
}

// Runs part of the sweep `lab5`, which repeats the source report. --shrink 16 reduces its batch of 16 to 1.
TEST(SlowSweep, Lab5IsMeasuredAndReported) {
  const Scratch scratch;
  const Program program = run_program(
      "sweep --grid lab5 --batch_size 16 --emb_dim 1024 --shrink 16 --repeats 3 --time-limit 0.05 --json-dir cells",
      scratch);
  ASSERT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("\n16 cells: 16 ok\n"), std::string::npos) << program.output;
  std::set<std::string> cells;
  std::map<std::string, std::map<std::string, double>> peaks;
  for (const Json& row : rows_in(scratch, "sweep_lab5.jsonl")) {
    EXPECT_EQ(row.at("config").at("shrink").as_integer(), 16);
    const double peak = row.at("peak_memory_usage(MB)").as_number();
    peaks[row.at("config").dump()][row.at("implementation").as_string()] = peak;
    EXPECT_NEAR(peak / (row.at("predicted_memory_bytes").as_number() / (1 << 20)), 1, 0.05)
        << row.at("command").as_string();
    cells.insert(row.at("config").dump() + row.at("implementation").as_string());
  }
  EXPECT_EQ(cells.size(), 16u);
  for (auto& [config, peak] : peaks) EXPECT_GT(peak["standard"], peak["flash2"]) << config;
  const std::filesystem::directory_iterator files(scratch.path() / "cells");
  EXPECT_EQ(std::distance(begin(files), end(files)), 16);
  const Program report = run_program("report sweep_lab5.jsonl --output report", scratch);
  EXPECT_EQ(report.code, 0) << report.errors;
  EXPECT_EQ(report.output.find("16 cells, 16 rows; written: report/report.html"), 0u) << report.output;
}

struct BadSweep {
  const char* arguments;
  const char* says;
};
class SweepRefuses : public testing::TestWithParam<BadSweep> {};
TEST_P(SweepRefuses, InOneLineWithExitCode2AndNothingWritten) {
  const Scratch scratch;
  const Program program = run_program(std::string("sweep ") + GetParam().arguments, scratch);
  EXPECT_EQ(program.code, 2) << program.errors;
  EXPECT_NE(program.errors.find(GetParam().says), std::string::npos) << program.errors;
  EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << program.errors;
  EXPECT_EQ(scratch.entries(), 0u);
}
INSTANTIATE_TEST_SUITE_P(
    Cli, SweepRefuses,
    testing::Values(
        BadSweep{"lab6", "--grid lab6: unknown; valid: attention, cpu, cpu-speed, features-cpu"},
        BadSweep{"lab5 --grid cpu", "--grid: given twice, with lab5 and cpu; valid: once"},
        BadSweep{"--grid ./none.grid", "--grid ./none.grid: cannot be read"},
        BadSweep{"--seq_len 16,x", "--seq_len x: not a whole number"},
        BadSweep{"--seq_len 16,,17", "--seq_len 16,,17: the list must not have an empty item"},
        BadSweep{"--seq_len 16,16", "--seq_len 16,16: 16 is listed twice; valid: each once"},
        BadSweep{"--dtype fp32,fp8", "--dtype fp8: valid: fp32, fp16, bf16"},
        BadSweep{"--impl flash9", "--impl flash9: unknown implementation"},
        BadSweep{"--heads 3 --emb 16,17", "--emb_dim 16: not a multiple of --num_heads 3; no cell is left"},
        BadSweep{"--shard 0/2", "--shard 0"}, BadSweep{"--shard 3/2", "--shard 3"},
        BadSweep{"--shard 1", "--shard 1: valid: K/N"}, BadSweep{"--shrink 0", "--shrink 0"},
        BadSweep{"--cell-limit 0", "--cell-limit 0: not a number of seconds"}, BadSweep{"--repeats 0", "--repeats 0"},
        BadSweep{"--program ./none", "--program ./none: no such file"},
        BadSweep{"--output /nonexistent/x.jsonl", "--output /nonexistent/x.jsonl: cannot be written"},
        BadSweep{"--output -", "--output -: a sweep needs a file to resume from"},
        BadSweep{"--output .", "--output .: is a folder"}, BadSweep{"--output ''", "--output \"\": a file name"},
        BadSweep{"--json-dir /nonexistent/x/y", "--json-dir /nonexistent/x/y: not a writable folder"},
        BadSweep{"--dtype fp32,bf16 --json-dir .",
                 "--json-dir .: two cells would have the file name result_bs1_sl1024"},
        BadSweep{"--json-dir cells --output /nonexistent/x.jsonl", "--output /nonexistent/x.jsonl: cannot be written"},
        BadSweep{"--seq-lenn 5", "--seq-lenn: unknown flag; nearest: --seq_len"}));

}  // namespace
}  // namespace strobe::test
