// Tests commands whose output is a file of another program, a damaged log, a link, a FIFO or a closed descriptor. No
// file of another program may be changed or replaced.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "cli/lm/run.h"
#include "cli/run_program.h"
#include "core/json.h"

namespace strobe::test {
namespace {

const std::string kTinySweep =
    "sweep --seq_len 16,32 --batch 1 --num_heads 1 --emb_dim 16 --dtype fp32 --repeats 1 --time-limit 0.01 --quick ";

Program run_redirected(const std::string& command, const std::string& redirection, const Scratch& scratch) {
  return run_command("{ CUDA_VISIBLE_DEVICES= " + command + " " + redirection + "; }", scratch);
}

const std::string kStrobeProgram = "'" STROBE_PROGRAM "' ";
const std::string kLabProgram = "\"$(dirname '" STROBE_PROGRAM "')/strobe-lab\" ";

TEST(ClosedDescriptors, ASweepDoesNotWriteItsProgressIntoTheResultFile) {
  const Scratch scratch;
  ASSERT_EQ(run_program(kTinySweep + "--output s.jsonl", scratch).code, 0);
  const std::string before = scratch.read("s.jsonl");
  for (const std::string redirection : {">&-", "<&- >&- 2>&-", "2>&-"}) {
    const Program closed = run_redirected(kStrobeProgram + kTinySweep + "--output s.jsonl", redirection, scratch);
    EXPECT_EQ(closed.code, redirection == "2>&-" ? 0 : 3) << redirection;
    EXPECT_EQ(scratch.read("s.jsonl"), before) << redirection;
  }
  EXPECT_EQ(run_program(kTinySweep + "--output s.jsonl", scratch).code, 0);
}

TEST(ClosedDescriptors, AResultThatCannotBePrintedIsAFailure) {
  const Scratch scratch;
  const std::string line = "strobe: standard output: cannot be written: Bad file descriptor\n";
  for (const std::string arguments : {"version", "bench --help", "explain --quick --seq_len 32"}) {
    const Program closed = run_redirected(kStrobeProgram + arguments, ">&-", scratch);
    EXPECT_EQ(closed.code, 3) << arguments;
    EXPECT_EQ(closed.errors, line) << arguments;
  }
  const Program bench = run_redirected(
      kStrobeProgram +
          "bench --quick --repeats 1 --batch_size 1 --seq_len 16 --num_heads 1 --emb_dim 16 --output b.json",
      ">&-", scratch);
  EXPECT_EQ(bench.code, 3);
  EXPECT_EQ(bench.errors, line);
  EXPECT_TRUE(Json::parse(scratch.read("b.json")).is_object()) << "the result file is written anyway";
}

TEST(ClosedDescriptors, TheOtherProgramsWriteCompleteAnswers) {
  const Scratch scratch;
  const std::string input = "'" STROBE_TEST_DATA "/solve/plain.in' ";
  ASSERT_EQ(run_program("solve " + input + "answer --device cpu", scratch).code, 0);
  for (const std::string redirection : {">&-", "<&- >&- 2>&-"}) {
    EXPECT_EQ(run_redirected("'" STROBE_HW4 "' " + input + "hw4", redirection, scratch).code, 3);
    EXPECT_EQ(
        run_redirected(kLabProgram + "--rung sequential --input " + input + "--output lab", redirection, scratch).code,
        3);
    EXPECT_EQ(scratch.read("hw4"), scratch.read("answer"));
    EXPECT_EQ(scratch.read("lab").size(), scratch.read("answer").size());
    EXPECT_EQ(run_redirected(kLabProgram + "--list", redirection, scratch).code, 3);
    EXPECT_EQ(run_redirected(kLabProgram + "--nonsense", redirection, scratch).code, 2);
  }
}

TEST(ForeignFiles, ASweepRejectsAFileWithoutRows) {
  const Scratch scratch;
  for (const std::string& text :
       {std::string("my thesis: three months of work"), std::string("{\"a\":1}"), std::string(100000, '\0')}) {
    std::ofstream(scratch.path() / "t.txt") << text;
    for (const char* more : {"", "--dry-run"}) {
      expect_refusal(run_program(kTinySweep + "--output t.txt " + more, scratch), 2,
                     "--output t.txt: is not a file of rows");
      EXPECT_EQ(scratch.read("t.txt"), text);
    }
  }
  std::ofstream(scratch.path() / "t.txt") << "{\"forward\":{\"time";
  const Program torn = run_program(kTinySweep + "--output t.txt", scratch);
  EXPECT_EQ(torn.code, 0) << torn.errors;
  EXPECT_NE(torn.output.find("incomplete and is removed, 17 bytes"), std::string::npos) << torn.output;
}

TEST(ForeignFiles, ASweepFollowsNoLink) {
  const Scratch scratch;
  std::ofstream(scratch.path() / "victim") << "{\"forward\":";
  std::filesystem::create_symlink("victim", scratch.path() / "link");
  expect_refusal(run_program(kTinySweep + "--output link", scratch), 2, "--output link: is a symbolic link");
  ASSERT_EQ(mkfifo((scratch.path() / "fifo").c_str(), 0666), 0);
  expect_refusal(run_program(kTinySweep + "--output fifo", scratch), 2, "--output fifo: is not a regular file");
  std::filesystem::create_directory(scratch.path() / "cells");
  std::filesystem::create_symlink("../victim", scratch.path() / "cells/result_bs1_sl16_nh1_ed16_Flash2_causal.json");
  expect_refusal(run_program(kTinySweep + "--output s.jsonl --json-dir cells", scratch), 2, "is a symbolic link");
  EXPECT_EQ(scratch.read("victim"), "{\"forward\":");
}

TEST(ForeignFiles, AFifoIsNotReadAsAGridOrAListOfCases) {
  const Scratch scratch;
  for (const char* name : {"grid.sweep", "cases.json"}) {
    ASSERT_EQ(mkfifo((scratch.path() / name).c_str(), 0666), 0);
  }
  expect_refusal(run_program("sweep --grid ./grid.sweep --output s.jsonl", scratch, "timeout -s KILL 20"), 2,
                 "--grid ./grid.sweep: cannot be read");
  const Program solved =
      run_program("solve '" STROBE_TEST_DATA "/solve/plain.in' answer --device cpu", scratch, "timeout -s KILL 20");
  EXPECT_EQ(solved.code, 0) << solved.errors;
}

// Commands also write documents whose names they derive from --output. These must not replace files of the user.
TEST(ForeignFiles, DocumentsOfTheUserAreNotReplaced) {
  const std::string plan = "plan --size small --devices 8,64 --machine a100 --output mine.json",
                    ladder = "ladder --case 1,64,32 --repeats 1 --rungs cpu-library --output mine.jsonl";
  const auto refused = [](const std::string& command, const std::string& name, const std::string& text) {
    const Scratch scratch;
    std::ofstream(scratch.path() / name) << text;
    expect_refusal(run_program(command, scratch), 2,
                   "--output: " + name +
                       ": exists and was not written by this command; valid: another path, or remove the file first");
    EXPECT_EQ(scratch.read(name), text);
    return scratch.entries();
  };
  EXPECT_EQ(refused(plan, "mine.md", "# Plan\n\nFor next year.\n"), 1u);
  EXPECT_EQ(refused(plan, "mine-time.svg", "<svg>mine</svg>"), 1u);
  EXPECT_EQ(refused(ladder, "mine.md", "my notes"), 1u) << "rejected before anything is measured";
  EXPECT_EQ(refused(ladder, "mine.svg", "<svg>mine</svg>"), 2u) << "the rows are written";

  const Scratch scratch;
  std::ofstream(scratch.path() / "mine.md")
      << "# Plan\n\n![Time of a step](mine-time.svg)\n";  // as an older version of strobe wrote it
  EXPECT_EQ(run_program(plan, scratch).code, 0);
  EXPECT_EQ(run_program(plan, scratch).code, 0);
  std::filesystem::remove(scratch.path() / "mine.md");
  ASSERT_EQ(mkfifo((scratch.path() / "mine.md").c_str(), 0666), 0);
  expect_refusal(run_program(plan, scratch, "timeout -s KILL 20"), 2,
                 "--output: mine.md: exists and was not written by ");
}

// Nor do commands replace files of the user that have the default output names.
TEST(ForeignFiles, DefaultOutputsOfTheUserAreNotReplaced) {
  const std::string one = "--size tiny --context 16 --batch 1 --steps 1";
  const std::vector<std::pair<std::string, std::string>> table = {
      {"bench --seq_len 16 --emb_dim 16 --num_heads 1 --quick", "benchmark_result.json"},
      {"lm bench " + one, "lm_bench_result.json"},
      {"lm memory --size tiny --context 16 --batch 1", "lm_memory.html"},
      {"lm memory --size tiny --context 16 --batch 1", "lm_memory_result.json"},
      {"lm profile " + one, "lm_profile_trace.json"},
      {"plan --size small --devices 8 --machine a100", "plan.json"},
      {"ladder --case 1,64,32 --repeats 1 --rungs cpu-library", "ladder.jsonl"},
      {"comm --ranks 1 --sizes 4K --time-limit 0.01", "comm.jsonl"}};
  for (const auto& [command, name] : table) {
    SCOPED_TRACE(name);
    const Scratch scratch;
    const std::filesystem::path path = scratch.path() / name;
    std::ofstream(path) << "my notes";
    expect_refusal(run_program(command, scratch), 2, "--output: " + name + ": exists and was not written by ");
    EXPECT_EQ(scratch.read(name), "my notes");
    std::filesystem::rename(path, scratch.path() / "victim");
    std::filesystem::create_symlink("victim", path);
    expect_refusal(run_program(command, scratch), 2, name + ": is a symbolic link; valid: a regular file");
    EXPECT_EQ(scratch.read("victim"), "my notes");
  }
}

TEST(ForeignFiles, LinksAndFifosUnderChosenNamesAreRejected) {
  const std::string report = "report '" STROBE_TEST_DATA "/results/small.jsonl' --output r",
                    plan = "plan --size small --devices 8,64 --machine a100 --output p.json";
  for (const auto& [command, name] :
       std::vector<std::pair<std::string, std::string>>{{report, "r/report.html"},
                                                        {report, "r/.strobe-report.json"},
                                                        {plan, "p.md"},
                                                        {plan, "p-time.svg"},
                                                        {"cases gen r --subset t01 --scale 0.05", "r/t01.out"}}) {
    SCOPED_TRACE(name);
    const Scratch scratch;
    std::filesystem::create_directory(scratch.path() / "r");
    const std::filesystem::path path = scratch.path() / name;
    std::filesystem::create_symlink(scratch.path() / "missing", path);
    expect_refusal(run_program(command, scratch), 2, "p.md" == name ? "exists and was not" : "is a symbolic link");
    EXPECT_FALSE(std::filesystem::exists(scratch.path() / "missing"));
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0666), 0);
    expect_refusal(run_program(command, scratch, "timeout -s KILL 20"), 2,
                   "p.md" == name ? "exists and was not" : "is not a regular file");
  }
  const Scratch scratch;
  std::filesystem::create_directories(scratch.path() / "outside");
  std::filesystem::create_directories(scratch.path() / "r");
  std::filesystem::create_symlink("../outside", scratch.path() / "r/charts");
  expect_refusal(run_program(report, scratch), 2, "r/charts: is a symbolic link");
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path() / "outside"));
  std::ofstream(scratch.path() / "r/.strobe-report.json") << "{\"mine\": 1}";
  expect_refusal(run_program(report, scratch), 2,
                 "r/.strobe-report.json: exists and was not written by a report of strobe");
}

TEST(ForeignFiles, NamesTooLongForChartsAreRejectedBeforeMeasuring) {
  const Scratch scratch;
  const std::string stem(221, 'y');
  for (const std::string& command : {"comm --ranks 1 --sizes 4K --output " + stem + ".jsonl",
                                     "plan --size small --devices 8 --machine a100 --output " + stem + ".json"}) {
    expect_refusal(run_program(command, scratch), 2, "too long for the names of its charts; valid: at most 220 bytes");
  }
  EXPECT_EQ(scratch.entries(), 0u);
}

class RunFolder : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(run_program(kSmall + "--steps 4 --out run", scratch_).code, 0); }
  Program resume() const {
    return run_program(kSmall + "--steps 5 --out run --resume", scratch_, "timeout -s KILL 30");
  }
  std::string log() const { return scratch_.read("run/steps.jsonl"); }
  std::filesystem::path file(const std::string& name) const { return scratch_.path() / "run" / name; }

  const Scratch scratch_;
};

TEST_F(RunFolder, BackupsAreKept) {
  const std::vector<std::string> backups = {"step-00000004.safetensors.backup", "step-00000004.safetensors.sha256",
                                            "run.json.backup", "steps.jsonl.backup"};
  for (const std::string& name : backups) std::ofstream(file(name)) << name;
  std::filesystem::create_directory(file("run.json.folder"));
  const Program resumed = resume();
  EXPECT_EQ(resumed.code, 0) << resumed.errors;
  for (const std::string& name : backups) EXPECT_EQ(scratch_.read("run/" + name), name);
  EXPECT_TRUE(std::filesystem::exists(file("run.json.folder")));
}

TEST_F(RunFolder, AFreshRunRejectsAFolderWithABackup) {
  std::filesystem::create_directory(scratch_.path() / "other");
  std::filesystem::copy(file("step-00000004.safetensors"), scratch_.path() / "other/step-00000004.safetensors.backup");
  expect_refusal(run_program(kSmall + "--steps 4 --out other", scratch_), 2, "--out other: is not empty");
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() / "other/step-00000004.safetensors.backup"));
}

TEST_F(RunFolder, ADamagedLogIsRejectedAndKept) {
  std::string text = log();
  text[text.find('\n') + 1] ^= 1;
  std::ofstream(file("steps.jsonl")) << text;
  expect_refusal(resume(), 2, "run/steps.jsonl: line 2 is damaged");
  EXPECT_EQ(log(), text);
  std::filesystem::rename(file("steps.jsonl"), file("steps.jsonl.damaged"));  // as the error line suggests
  EXPECT_EQ(resume().code, 0);
  EXPECT_EQ(log().find("{\"step\":5,"), 0u);
}

TEST_F(RunFolder, ALinkedLogIsRejectedAndItsTargetKept) {
  std::ofstream(scratch_.path() / "victim.txt") << log();
  const std::string before = log();
  std::filesystem::remove(file("steps.jsonl"));
  std::filesystem::create_symlink("../victim.txt", file("steps.jsonl"));
  expect_refusal(resume(), 2, "run/steps.jsonl: is a symbolic link; valid: a regular file");
  EXPECT_EQ(scratch_.read("victim.txt"), before);
}

TEST_F(RunFolder, AFifoAsLogIsRejectedAtOnce) {
  std::filesystem::remove(file("steps.jsonl"));
  ASSERT_EQ(mkfifo(file("steps.jsonl").c_str(), 0666), 0);
  expect_refusal(resume(), 2, "run/steps.jsonl: is not a regular file; valid: a regular file");
}

}  // namespace
}  // namespace strobe::test
