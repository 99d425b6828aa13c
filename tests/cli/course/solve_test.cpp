// Tests `strobe solve`, `strobe cases` and `hw4` (the course's homework interface of solve) as users run them: correct
// answers, exit codes, one-line errors, and no output file after a failure.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <vector>

#include "cli/background.h"
#include "cli/run_program.h"
#include "core/descriptor.h"
#include "core/json.h"
#include "core/temporary_file.h"
#include "support/sanitized.h"

namespace strobe::test {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> floats_in(const std::string& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), 4 * values.size());
  return values;
}

// Writes a problem file: a header, then the given number of floats, each 0.5.
void write_problem(const Scratch& scratch, const std::string& name, std::vector<std::int32_t> header,
                   std::size_t floats) {
  std::ofstream file(scratch.path() / name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(header.data()), static_cast<std::streamsize>(4 * header.size()));
  const std::vector<float> values(floats, 0.5f);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(4 * floats));
}

Program run_hw4(const std::string& arguments, const Scratch& scratch) {
  return run_command("CUDA_VISIBLE_DEVICES= '" STROBE_HW4 "' " + arguments, scratch);
}

// Checks the exit code, that the only error line contains `part`, and that standard output is empty.
void expect_refused(const Program& program, int code, const std::string& part) {
  EXPECT_EQ(program.code, code) << program.errors;
  EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << program.errors;
  EXPECT_NE(program.errors.find(part), std::string::npos) << program.errors;
  EXPECT_EQ(program.output, "");
}

// Reads files written by tests/data/solve/make_files.py, which shares no code with this program:
//   plain.in   03 00 00 00 | 13 00 00 00 | 08 00 00 00   B = 3, N = 19, d = 8
//              then Q, K, V of batch 0, of batch 1, of batch 2: 19 rows of 8 float32 each
//   plain.out  O of batch 0, 1, 2 in the same layout; no header
TEST(Solve, AnswersFilesOfAnIndependentScript) {
  const std::string plain = read_file(STROBE_TEST_DATA "/solve/plain.in");
  ASSERT_EQ(plain.size(), 12u + 3 * 3 * 19 * 8 * 4);
  EXPECT_EQ(plain.substr(0, 12), std::string("\x03\0\0\0\x13\0\0\0\x08\0\0\0", 12));
  EXPECT_EQ(plain.substr(12, 4), std::string("\x0f\xb7\xca\xbf", 4));  // Q[0][0] = -1.5837...
  const Scratch scratch;
  for (const char* name : {"plain", "wide"}) {
    const std::string data = std::string(STROBE_TEST_DATA "/solve/") + name;
    const Program solve = run_program("solve '" + data + ".in' ours --device cpu", scratch);
    ASSERT_EQ(solve.code, 0) << solve.errors;
    const Program hw4 = run_hw4("'" + data + ".in' hw4s", scratch);
    ASSERT_EQ(hw4.code, 0) << hw4.errors;
    EXPECT_EQ(scratch.read("hw4s"), scratch.read("ours"));
    const std::vector<float> expected = floats_in(read_file(data + ".out")), found = floats_in(scratch.read("ours"));
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-5) << name << " " << i;
  }
  EXPECT_EQ(scratch.entries(), 2u);
}

const std::regex kSizesAndTime(R"(\(B, N, d\): \(3, 19, 8\)\nTime: \d+\.\d{3} seconds\n)");

TEST(Solve, PrintsSizesTimeAndStages) {
  const Scratch scratch;
  const std::string input = "'" STROBE_TEST_DATA "/solve/plain.in'";
  const Program plain = run_hw4(input + " out", scratch);
  EXPECT_TRUE(std::regex_match(plain.output, kSizesAndTime)) << plain.output;
  const Program timing = run_program("solve " + input + " out --timing --device cpu --impl standard", scratch);
  for (const char* part : {"standard on cpu", "read", "host-to-device", "kernel", "device-to-host", "write", "total",
                           "process start", "context creation", "fsync"}) {
    EXPECT_NE(timing.output.find(part), std::string::npos) << part << "\n" << timing.output;
  }
}

TEST(Solve, RunsARungOfTheLadder) {
  const Scratch scratch;
  const std::string input = "'" STROBE_TEST_DATA "/solve/plain.in'";
  const Program rung = run_program("solve " + input + " out --rung sequential", scratch);
  ASSERT_EQ(rung.code, 0) << rung.errors;
  EXPECT_TRUE(std::regex_match(rung.output, kSizesAndTime)) << rung.output;
  const std::vector<float> expected = floats_in(read_file(STROBE_TEST_DATA "/solve/plain.out")),
                           found = floats_in(scratch.read("out"));
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-5) << i;
  expect_refused(run_program("solve " + input + " other --rung nonsense", scratch), 2, "nonsense");
  expect_refused(run_program("solve " + input + " other --rung ''", scratch), 2, "--rung: the value is empty");
  expect_refused(run_program("cases gen other --subset ''", scratch), 2, "--subset: the value is empty");
  expect_refused(run_program("solve " + input + " other --rung sequential --impl flash2", scratch), 2,
                 "--rung sequential: a rung fixes the kernel and the device; leave out --impl");
  EXPECT_EQ(scratch.entries(), 1u);
}

TEST(Solve, RejectsBadInputAndLeavesNothing) {
  const Scratch scratch;
  const std::int32_t most = 2147483647;
  write_problem(scratch, "short", {2, 3, 4}, 71);
  write_problem(scratch, "long", {2, 3, 4}, 73);
  write_problem(scratch, "zero", {2, 0, 4}, 0);
  write_problem(scratch, "negative", {2, 3, -4}, 72);
  write_problem(scratch, "absurd", {1 << 20, 1 << 20, 64}, 72);
  write_problem(scratch, "overflow", {most, most, most}, 72);
  write_problem(scratch, "header", {2, 3}, 0);
  write_problem(scratch, "empty", {}, 0);
  write_problem(scratch, "good", {2, 3, 4}, 72);
  std::filesystem::create_directory(scratch.path() / "folder");
  const std::size_t before = scratch.entries();
  for (const auto& [name, part] :
       std::vector<std::pair<std::string, std::string>>{{"short", "the file has 296, 4 too few"},
                                                        {"long", "the file has 304, 4 too many"},
                                                        {"zero", "(2, 0, 4); each must be at least 1"},
                                                        {"negative", "(2, 3, -4); each must be at least 1"},
                                                        {"absurd", "too few"},
                                                        {"overflow", "more than any file holds"},
                                                        {"header", "too few for its header of 12"},
                                                        {"empty", "has 0 bytes"},
                                                        {"missing", "No such file"},
                                                        {"folder", "is a folder"},
                                                        {"/dev/zero", "is not a regular file"}}) {
    SCOPED_TRACE(name);
    expect_refused(run_program("solve " + name + " out --device cpu", scratch), 2, part);
    expect_refused(run_hw4(name + " out", scratch), 2, part);
  }
  expect_refused(run_program("solve good missing/out", scratch), 2, "output missing/out: cannot be written");
  expect_refused(run_program("solve good folder", scratch), 2, "is a folder");
  expect_refused(run_program("solve good", scratch), 2, "solve takes two files, INPUT and OUTPUT; 1 given");
  expect_refused(run_program("solve good out --impl flash3 --device cpu", scratch), 2, "flash3");
  expect_refused(run_program("solve good out --device tpu", scratch), 2, "cpu");
  expect_refused(run_program("solve good out --device cpu", scratch, "STROBE_CPU_ISA=bogus"), 2,
                 "STROBE_CPU_ISA is 'bogus'");
  expect_refused(run_program("solve good out --device cuda", scratch), 2, "cuda");
  expect_refused(run_hw4("good", scratch), 2, "hw4: two arguments are needed, INPUT and OUTPUT; 1 given");
  expect_refused(run_hw4("good out third", scratch), 2, "3 given");
  expect_refused(run_hw4("good --timing", scratch), 2, "hw4: --timing: hw4 has no flags");
  expect_refused(run_program("solve good '' --rung sequential", scratch), 2, "output \"\": a file name is needed");
  // An answer on standard output would be mixed with the lines that the program prints.
  expect_refused(run_program("solve good /dev/stdout --device cpu", scratch), 2, "is the standard output");
  const Program piped = run_command("('" STROBE_PROGRAM "' solve good /dev/stdout --device cpu | cat)", scratch);
  EXPECT_NE(piped.errors.find("output /dev/stdout: is the standard output"), std::string::npos) << piped.errors;
  EXPECT_EQ(piped.output, "");
  EXPECT_EQ(scratch.entries(), before);
}

TEST(Solve, FullDiskIsAFailureThatLeavesNothing) {
  const Scratch scratch;
  write_problem(scratch, "in", {20, 512, 64}, 3 * 20 * 512 * 64);
  expect_refused(run_program("solve in /dev/full --device cpu", scratch), 3, "No space left on device");
  // ulimit -f counts blocks of 512 or 1024 bytes: the limit is 50 or 100 KB. The answer has 2.6 MB.
  const Program limited =
      run_command("(ulimit -f 100; CUDA_VISIBLE_DEVICES= '" STROBE_PROGRAM "' solve in out --device cpu)", scratch);
  expect_refused(limited, 3, "File too large");
  EXPECT_EQ(scratch.entries(), 1u);
}

TEST(Solve, SignalsDuringARunLeaveNothing) {
  const Scratch scratch;
  write_problem(scratch, "in", {4, 65536, 8}, 3 * 4 * 65536 * 8);  // `reference` takes over a minute
  // Reading a mapped file after it was truncated raises SIGBUS.
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}, std::pair{SIGBUS, 3},
                                     std::pair{SIGUSR1, 128 + SIGUSR1}, std::pair{SIGALRM, 128 + SIGALRM}}) {
    Background solving("solve in out --device cpu --impl reference", scratch, "errors");
    ASSERT_TRUE(becomes([&] { return solving.has_temporary_file(); }));
    pause_for(0.05);
    solving.send(signal);
    EXPECT_EQ(solving.wait(), code);
    EXPECT_EQ(scratch.read("errors"), signal == SIGBUS
                                          ? "strobe: a file was truncated while it was read, or its disk failed\n"
                                          : "strobe: solve: ended by a signal; nothing was written\n");
    EXPECT_EQ(scratch.entries(), 2u);
    std::filesystem::remove(scratch.path() / "errors");
  }
}

TEST(Solve, SigkillLeavesNothing) {
  const Scratch scratch;
  write_problem(scratch, "in", {4, 65536, 8}, 3 * 4 * 65536 * 8);
  Background solving("solve in out --device cpu --impl reference", scratch);
  ASSERT_TRUE(becomes([&] { return solving.has_temporary_file(); }));
  solving.send(SIGKILL);
  EXPECT_EQ(solving.wait(), 128 + SIGKILL);
  const Descriptor unnamed(open(scratch.path().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666));
  if (!unnamed) GTEST_SKIP() << "this file system has no O_TMPFILE";
  EXPECT_EQ(scratch.entries(), 1u);
}

// fail_writes.so simulates a file system without O_TMPFILE, so the temporary file has a name.
TEST(Solve, TheNextRunRemovesTheNamedFileThatSigkillLeft) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer's runtime must be the first library";
  const Scratch scratch;
  write_problem(scratch, "in", {4, 65536, 8}, 3 * 4 * 65536 * 8);
  std::ofstream(scratch.path() / "state") << std::string(16, '\0');
  const std::string library = std::filesystem::path(STROBE_PROGRAM).parent_path() / "fail_writes.so";
  for (const auto& [name, value] : {std::pair<const char*, std::string>{"LD_PRELOAD", library},
                                    {"STROBE_FAIL_STATE", scratch.path() / "state"},
                                    {"STROBE_FAIL_UNNAMED", "1"}}) {
    setenv(name, value.c_str(), 1);
  }
  Background solving("solve in out --device cpu --impl reference", scratch);
  for (const char* name : {"LD_PRELOAD", "STROBE_FAIL_STATE", "STROBE_FAIL_UNNAMED"}) unsetenv(name);
  const auto temporaries = [&] {
    const std::filesystem::directory_iterator all(scratch.path());
    return std::count_if(begin(all), end(all), [](const auto& entry) {
      return stem_of_temporary(entry.path().filename().string()) == "out";
    });
  };
  ASSERT_TRUE(becomes([&] { return temporaries() == 1; }));
  EXPECT_EQ(run_program("solve '" STROBE_TEST_DATA "/solve/plain.in' out --device cpu", scratch).code, 0);
  EXPECT_EQ(temporaries(), 1) << "a running process has it open";
  solving.send(SIGKILL);
  solving.wait();
  EXPECT_EQ(temporaries(), 1);
  EXPECT_EQ(run_program("solve '" STROBE_TEST_DATA "/solve/plain.in' out --device cpu", scratch).code, 0);
  EXPECT_EQ(temporaries(), 0);
}

TEST(Solve, OutputNamesOf255CharactersWork) {
  const Scratch scratch;
  for (const std::size_t length : {249u, 255u}) {
    const std::string name(length, 'o');
    for (int i = 0; i < 2; ++i) {  // creates the file, then replaces it
      const Program solve =
          run_program("solve '" STROBE_TEST_DATA "/solve/plain.in' " + name + " --device cpu", scratch);
      EXPECT_EQ(solve.code, 0) << solve.errors;
      EXPECT_EQ(scratch.read(name).size(), 3u * 19 * 8 * 4);
    }
  }
  EXPECT_EQ(scratch.entries(), 2u);
  expect_refused(run_program("solve '" STROBE_TEST_DATA "/solve/plain.in' " + std::string(256, 'o'), scratch), 2,
                 "File name too long");
}

// The programs hw4 and strobe-lab also print a message when a signal ends them.
TEST(Solve, OtherProgramsPrintASignalMessageToo) {
  const Scratch scratch;
  write_problem(scratch, "in", {1, 65536, 64}, 3 * 65536 * 64);
  const std::string lab = "\"$(dirname '" STROBE_PROGRAM "')/strobe-lab\" --rung sequential --input in --output out";
  for (const auto& [command, name] :
       {std::pair<std::string, std::string>{"'" STROBE_HW4 "' in out", "hw4"}, {lab, "strobe-lab"}}) {
    const Program ended =
        run_command("(CUDA_VISIBLE_DEVICES= " + command +
                        " & until ls -l /proc/$!/fd | grep -qE '/#|strobe-tmp'; do sleep 0.02; done; kill $!; wait $!)",
                    scratch);
    EXPECT_EQ(ended.code, 143) << ended.errors;
    EXPECT_EQ(ended.errors, name + ": ended by a signal; nothing was written\n");
    EXPECT_EQ(scratch.entries(), 1u);
  }
}

TEST(Cases, AreMadeCheckedAndJudged) {
  const Scratch scratch;
  const Program made = run_program("cases gen dir --subset t01,t02,t21 --scale 0.05", scratch);
  ASSERT_EQ(made.code, 0) << made.errors;
  EXPECT_NE(made.output.find("t02 (8, 6, 64) made in"), std::string::npos) << made.output;
  const Program again = run_program("cases gen dir --subset t01,t02,t21 --scale 0.05", scratch);
  EXPECT_NE(again.output.find("t21 (25, 102, 32) exists"), std::string::npos) << again.output;

  ASSERT_EQ(run_program("solve dir/t01 out --device cpu", scratch).code, 0);
  const Program right = run_program("cases check out dir/t01.out", scratch);
  EXPECT_EQ(right.code, 0) << right.output;
  EXPECT_EQ(right.output.find("AC: 3072 elements, largest error "), 0u) << right.output;
  const Program wrong = run_program("cases check out dir/t02.out", scratch);  // the same number of elements
  EXPECT_EQ(wrong.code, 1);
  EXPECT_EQ(wrong.output.find("WA: 3072 elements"), 0u) << wrong.output;
  EXPECT_NE(wrong.output.find("element 0: "), std::string::npos) << wrong.output;
  EXPECT_EQ(run_program("cases check out dir/t21.out", scratch).code, 1);
  EXPECT_EQ(run_program("cases check out dir/missing", scratch).code, 2);

  const Program judged = run_program("cases judge dir --json result.json --limits 60,60,60", scratch);
  EXPECT_EQ(judged.code, 0) << judged.output << judged.errors;
  EXPECT_NE(judged.output.find("score: 3 of 3 accepted"), std::string::npos) << judged.output;
  const Json result = Json::parse(scratch.read("result.json"));
  EXPECT_EQ(result.at("accepted").as_integer(), 3);
  EXPECT_EQ(result.at("cases").as_array()[2].at("case").as_string(), "t21");
  EXPECT_EQ(result.at("cases").as_array()[2].at("verdict").as_string(), "AC");
  EXPECT_LT(result.at("cases").as_array()[2].at("max_error").as_number(), 5e-5);
}

TEST(Cases, AFifoAsAnswerIsRejected) {
  const Scratch scratch;
  ASSERT_EQ(run_program("cases gen dir --subset t01 --scale 0.05", scratch).code, 0);
  std::filesystem::remove(scratch.path() / "dir/t01.out");
  ASSERT_EQ(mkfifo((scratch.path() / "dir/t01.out").c_str(), 0666), 0);
  expect_refused(run_program("cases judge dir", scratch, "timeout -s KILL 20"), 2, "dir/t01.out: ");
}

TEST(Cases, TheJudgeRejectsOutputsThatAreCaseFilesAndAMissingTmpdir) {
  const Scratch scratch;
  ASSERT_EQ(run_program("cases gen dir --subset t01 --scale 0.05", scratch).code, 0);
  for (const std::string name : {"t01", "t01.out", "cases.json"}) {
    const std::string before = scratch.read("dir/" + name);
    expect_refused(run_program("cases judge dir --json dir/" + name, scratch), 2,
                   "--json dir/" + name + ": is also the file of");
    EXPECT_EQ(scratch.read("dir/" + name), before);
  }
  expect_refused(run_program("cases judge dir", scratch, "TMPDIR=/missing"), 2, "TMPDIR /missing: ");
}

TEST(Cases, AreNotOverwritten) {
  const Scratch scratch;
  ASSERT_EQ(run_program("cases gen dir --subset t01,t02 --scale 0.05", scratch).code, 0);
  std::filesystem::create_symlink("dir/t01.out", scratch.path() / "link");
  const std::string problem = scratch.read("dir/t01"), answer = scratch.read("dir/t01.out");
  expect_refused(run_program("solve dir/t01 dir/t01.out --device cpu", scratch), 2,
                 "output dir/t01.out: is a file of case t01, listed in cases.json of its folder; valid: another name");
  expect_refused(run_hw4("dir/t02 link", scratch), 2, "output link: is a file of case t01");
  expect_refused(run_program("solve dir/t02 dir/t01 --rung sequential", scratch), 2, "dir/t01: is a file of case t01");
  expect_refused(run_program("solve dir/t01 dir/t01 --rung sequential", scratch), 2, "is also the file of the input");
  expect_refused(run_program("cases gen dir --subset t01 --scale 0.1", scratch), 2,
                 "dir/t01: exists with the header (16, 6, 32), but is not the case (32, 13, 32) of seed 1; valid: "
                 "another folder, or remove dir/t01 first");
  expect_refused(run_program("cases gen dir --subset t02-t03 --scale 0.05 --seed 2", scratch), 2,
                 "dir/t02: exists with");
  EXPECT_TRUE(scratch.read("dir/t01") == problem);
  EXPECT_TRUE(scratch.read("dir/t01.out") == answer);
  EXPECT_EQ(run_program("solve dir/t01 dir/mine.out --device cpu", scratch).code, 0);
  std::ofstream(scratch.path() / "dir/cases.json")
      << R"({"file": 1, "cases": {"t01": {"B": "16"}}})";  // cases.json with invalid values
  expect_refused(run_program("cases gen dir --subset t01 --scale 0.1", scratch), 2, "dir/t01: exists with");
  expect_refused(run_program("cases gen dir --subset t01 --scale 0.05 --seed 2", scratch), 2, "dir/t01: exists with");
  EXPECT_EQ(run_program("cases gen dir --subset t01 --scale 0.05", scratch).code, 0);
  EXPECT_TRUE(scratch.read("dir/t01") == problem);
  std::filesystem::remove(scratch.path() / "dir" / "t01");
  EXPECT_EQ(run_program("cases gen dir --subset t01 --scale 0.1", scratch).code, 0);
}

TEST(Cases, FilesOfTheUserAreNotOverwritten) {
  const Scratch scratch;
  const std::string gen = "cases gen dir --subset t01 --scale 0.05";
  std::filesystem::create_directory(scratch.path() / "dir");
  for (const char* text : {"{}", "my notes", R"({"cases": {}})"}) {
    std::ofstream(scratch.path() / "dir/cases.json") << text;
    expect_refused(run_program(gen, scratch), 2,
                   "dir/cases.json: exists and is not a list of cases; valid: another folder");
    EXPECT_EQ(scratch.read("dir/cases.json"), text);
  }
  std::filesystem::remove(scratch.path() / "dir/cases.json");
  ASSERT_EQ(mkfifo((scratch.path() / "dir/t01").c_str(), 0666), 0);
  expect_refused(run_program(gen, scratch, "timeout -s KILL 20"), 2,
                 "dir/t01: is not a regular file; valid: a regular file");
}

TEST(Cases, InterruptedGenReportsHowManyCasesAreMade) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch.path() / "dir");
  Background making("cases gen dir --subset t01,t30", scratch, "errors");  // the second case takes half a minute
  ASSERT_TRUE(becomes([&] { return scratch.read("dir/cases.json").find("t01") != std::string::npos; }));
  pause_for(0.3);
  making.send(SIGINT);
  EXPECT_EQ(making.wait(), 130);
  EXPECT_EQ(scratch.read("errors"),
            "strobe: cases gen: ended by a signal; 1 of 2 cases in dir; the same command resumes\n");
  const std::filesystem::directory_iterator left(scratch.path() / "dir");
  EXPECT_EQ(std::distance(begin(left), end(left)), 3);
}

std::size_t files_in(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// Returns the folder in which the judged program ran. The program wrote this path to the file `name`.
std::string folder_noted_in(const Scratch& scratch, const std::string& name) {
  std::string folder = scratch.read(name);
  folder.erase(folder.find_last_not_of('\n') + 1);
  return folder;
}

// The judge is interrupted while a program runs. It must remove that program's folder with all its contents.
TEST(Cases, AnInterruptedJudgeLeavesNothing) {
  const Scratch scratch;
  ASSERT_EQ(run_program("cases gen dir --subset t01 --scale 0.05", scratch).code, 0);
  scratch.program(
      "slow", "#!/bin/sh\necho part > \"$2.tmp\"\ndirname \"$2\" > '" + scratch.path().string() + "/note'\nsleep 60\n");
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    Background judging("cases judge dir --limits 50,50,50 --program ./slow --json j.json", scratch, "errors");
    ASSERT_TRUE(becomes([&] { return scratch.read("note").ends_with('\n'); }));
    EXPECT_TRUE(std::filesystem::exists(folder_noted_in(scratch, "note") + "/output.tmp"));
    judging.send(signal);
    EXPECT_EQ(judging.wait(), 128 + signal);
    EXPECT_EQ(scratch.read("errors"), "strobe: cases judge: ended by a signal; nothing was written\n");
    EXPECT_FALSE(std::filesystem::exists(folder_noted_in(scratch, "note")));
    EXPECT_EQ(files_in(scratch.path() / "dir"), 3u);
    EXPECT_EQ(scratch.entries(), 4u) << "the cases, the program, its note and the error file";
    std::filesystem::remove(scratch.path() / "errors");
    std::filesystem::remove(scratch.path() / "note");
  }
}

// Each script tries to be accepted without computing an answer. Some know the path of the case and use its answer file.
TEST(Cases, CheatingIsNotAccepted) {
  const Scratch scratch;
  ASSERT_EQ(run_program("cases gen dir --subset t01,t02 --scale 0.05", scratch).code, 0);
  const std::string real = (scratch.path() / "dir/t01.out").string();
  const std::string problem = scratch.read("dir/t01"), answer = scratch.read("dir/t01.out");
  std::ofstream(scratch.path() / "dir/t01.judged.mine") << "notes";
  const std::vector<std::pair<std::string, std::string>> scripts{
      {"cp \"$1.out\" \"$2\" 2>/dev/null; exit 0", "it wrote no output"},
      {"ln -sf \"$1.out\" \"$2\"", "its output is a symbolic link; valid: a regular file"},
      {"head -c 12288 /dev/zero | tee \"$1.out\" > \"$2\"", "elements are off"},
      {"ln -sf '" + real + "' \"$2\"", "its output is a symbolic link; valid: a regular file"},
      {"ln -f '" + real + "' \"$2\"", "was changed while it ran"},
      {"mkfifo \"$2\"", "its output is a FIFO; valid: a regular file"},
      {"mkdir \"$2\"", "its output is a folder; valid: a regular file"},
      {"echo x > \"$1.x\"; ln \"$1.x\" \"$2\"", "its output has 2 hard links; valid: one"},
  };
  for (const auto& [script, detail] : scripts) {
    SCOPED_TRACE(script);
    scratch.program("cheat", "#!/bin/sh\n" + script + "\n");
    const Program judged = run_program("cases judge dir --subset t01 --limits 50,50,50 --program ./cheat", scratch);
    EXPECT_EQ(judged.code, 1) << judged.errors;
    EXPECT_NE(judged.output.find(" WA "), std::string::npos) << judged.output;
    EXPECT_NE(judged.output.find(detail), std::string::npos) << judged.output;
    EXPECT_TRUE(scratch.read("dir/t01") == problem && scratch.read("dir/t01.out") == answer);
    EXPECT_EQ(scratch.read("dir/t01.judged.mine"), "notes");
    EXPECT_EQ(files_in(scratch.path() / "dir"), 6u) << "four case files, their list and the user's file";
  }
}

// The judge rejects a run that changes answer files, and also a later case whose answer file was changed.
TEST(Cases, OverwrittenAnswersAreNotUsed) {
  const Scratch scratch;
  ASSERT_EQ(run_program("cases gen dir --subset t01,t02 --scale 0.05", scratch).code, 0);
  const std::string folder = (scratch.path() / "dir").string();
  scratch.program("zeros", "#!/bin/sh\nfor file in \"$2\" '" + folder + "'/t0?.out; do head -c 12288 /dev/zero > " +
                               "\"$file\"; done\n");
  const Program judged = run_program("cases judge dir --limits 50,50,50 --program ./zeros --json j.json", scratch);
  EXPECT_EQ(judged.code, 1) << judged.errors;
  EXPECT_NE(judged.output.find("dir/t01.out was changed while it ran"), std::string::npos) << judged.output;
  EXPECT_NE(judged.output.find("dir/t02.out was changed after judging began"), std::string::npos) << judged.output;
  EXPECT_EQ(Json::parse(scratch.read("j.json")).at("accepted").as_integer(), 0);
}

TEST(Cases, ProcessesOfAProgramEndWithIt) {
  const Scratch scratch;
  ASSERT_EQ(run_program("cases gen dir --subset t01 --scale 0.05", scratch).code, 0);
  const std::string seconds = std::to_string(100000 + getpid());  // no other test sleeps this long
  const std::string sleep = "sleep " + seconds, arguments = std::string("sleep\0", 6) + seconds;
  // Starts processes in separate sessions: one keeps the standard output open, one is an orphan.
  scratch.program("leaving", "#!/bin/sh\nsetsid " + sleep + " &\n(setsid sh -c '" + sleep +
                                 "; :' >/dev/null 2>&1 &)\n"
                                 "exec '" STROBE_HW4 "' \"$1\" \"$2\"\n");
  const Program judged = run_program("cases judge dir --limits 50,50,50 --program ./leaving", scratch);
  EXPECT_EQ(judged.code, 0) << judged.output << judged.errors;
  EXPECT_EQ(processes_with(arguments), 0);
  scratch.program("late", "#!/bin/sh\nsetsid " + sleep + " &\n" + sleep + "\n");
  const Program late = run_program("cases judge dir --limits 1,1,1 --program ./late", scratch);
  EXPECT_NE(late.output.find(" TLE "), std::string::npos) << late.output;
  EXPECT_EQ(processes_with(arguments), 0);
}

TEST(Cases, AProgramStartsInASeparateFolder) {
  const Scratch scratch;
  ASSERT_EQ(run_program("cases gen dir --subset t01 --scale 0.05", scratch).code, 0);
  scratch.program("look", "#!/bin/sh\n{ pwd; ls -A; stat -c %a . \"$1\"; } > '" + scratch.path().string() +
                              "/note'\nmkdir -p a/b; chmod 0 a; exec '" STROBE_HW4 "' \"$1\" \"$2\"\n");
  const Program judged = run_program("cases judge dir --limits 50,50,50 --program ./look", scratch, "TMPDIR=.");
  EXPECT_EQ(judged.code, 0) << judged.output << judged.errors;
  const std::string note = scratch.read("note");
  EXPECT_EQ(note.find(std::filesystem::canonical(scratch.path()).string() + "/strobe-judge-"), 0u) << note;
  EXPECT_NE(note.find("\ninput\n700\n400\n"), std::string::npos) << note;
  EXPECT_EQ(scratch.entries(), 3u) << "the cases, the program and its note";
}

TEST(Cases, VerdictsOfOtherPrograms) {
  const Scratch scratch;
  ASSERT_EQ(run_program("cases gen dir --subset t01 --scale 0.05", scratch).code, 0);
  const std::size_t files = 3;
  scratch.program("wrong", "#!/bin/sh\nhead -c 12288 /dev/zero > \"$2\"\n");
  scratch.program("silent", "#!/bin/sh\nexit 0\n");
  scratch.program("short", "#!/bin/sh\necho x > \"$2\"\n");
  scratch.program("failing", "#!/bin/sh\necho 'no luck' >&2\nexit 7\n");
  scratch.program("crashing", "#!/bin/sh\nkill -SEGV $$\n");
  scratch.program("slow", "#!/bin/sh\necho part > \"$2.tmp\"\nsleep 60\n");
  scratch.program("talkative", "#!/bin/sh\nexec yes\n");
  for (const auto& [name, verdict, part] :
       std::vector<std::tuple<std::string, std::string, std::string>>{{"wrong", "WA", "elements are off"},
                                                                      {"silent", "WA", "it wrote no output"},
                                                                      {"short", "WA", "2 bytes instead of 12288"},
                                                                      {"failing", "RE", "exit code 7: no luck"},
                                                                      {"crashing", "RE", "signal 11"},
                                                                      {"slow", "TLE", ""},
                                                                      {"talkative", "TLE", ""}}) {
    const std::string limits = verdict == "TLE" ? "1,1,1" : "50,50,50";
    const Program program = run_program("cases judge dir --limits " + limits + " --program ./" + name, scratch);
    EXPECT_EQ(program.code, 1) << name;
    EXPECT_NE(program.output.find(" " + verdict + " "), std::string::npos) << program.output;
    EXPECT_NE(program.output.find(part), std::string::npos) << program.output;
    EXPECT_NE(program.output.find("score: 0 of 1 accepted"), std::string::npos) << program.output;
    EXPECT_EQ(files_in(scratch.path() / "dir"), files) << name;
  }
}

TEST(Cases, BadInputIsRejected) {
  const Scratch scratch;
  const std::size_t before = scratch.entries();
  expect_refused(run_program("cases nope", scratch), 2, "\"cases nope\": unknown command; valid: gen, check, judge");
  expect_refused(run_program("cases gen", scratch), 2, "takes one folder; 0 given");
  expect_refused(run_program("cases gen dir --subset t31", scratch), 2, "\"t31\" is not a case; valid: t01 to t30");
  expect_refused(run_program("cases gen dir --scale 2", scratch), 2, "up to 1");
  expect_refused(run_program("cases gen dir --scale 0", scratch), 2, "above 0");
  expect_refused(run_program("cases judge dir", scratch), 2, "has no cases");
  expect_refused(run_program("cases judge dir --limits 1,2", scratch), 2, "three numbers of seconds");
  EXPECT_EQ(scratch.entries(), before);
  ASSERT_EQ(run_program("cases gen dir --subset t01 --scale 0.05", scratch).code, 0);
  expect_refused(run_program("cases judge dir --program ./missing", scratch), 2, "cannot start ./missing");
  expect_refused(run_program("cases judge dir --json missing/x.json", scratch), 2, "--json missing/x.json");
  expect_refused(run_program("cases judge dir --subset t02", scratch), 2, "t02: is missing; strobe cases gen makes it");
  std::filesystem::resize_file(scratch.path() / "dir" / "t01.out", 100);
  expect_refused(run_program("cases judge dir", scratch), 2, "t01.out: has 100 bytes instead of 12288");
  std::filesystem::remove(scratch.path() / "dir" / "t01.out");
  expect_refused(run_program("cases judge dir", scratch), 2, "t01.out: is missing");
}

}  // namespace
}  // namespace strobe::test
