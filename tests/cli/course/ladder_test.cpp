// Tests `strobe ladder` and its program strobe-lab as users run them. The course's implementations of attention are
// called rungs; these tests run those for the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

#include "cli/background.h"
#include "cli/run_program.h"
#include "core/crc32.h"
#include "core/json.h"

namespace strobe::test {
namespace {

using namespace std::string_literals;

TEST(LadderCommand, PrintsAndWritesTableChartAndRows) {
  const Scratch scratch;
  const Program program = run_program(
      "ladder --case 2,128,32 --repeats 1 --rungs sequential,cpu-library,shared --output out.jsonl", scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("(2, 128, 32)"), std::string::npos) << program.output;
  EXPECT_NE(program.output.find("refused: "), std::string::npos) << program.output;  // the rung `shared` needs a GPU
  const std::string rows = scratch.read("out.jsonl");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 3);
  const Json first = Json::parse(rows.substr(0, rows.find('\n')));
  EXPECT_EQ(first.at("rung").as_string(), "sequential");
  EXPECT_LT(first.at("max_error").as_number(), 1e-4);
  EXPECT_NE(first.find("environment"), nullptr);
  EXPECT_NE(scratch.read("out.md").find("![The ladder"), std::string::npos);
  EXPECT_NE(scratch.read("out.svg").find("<svg"), std::string::npos);
  EXPECT_EQ(scratch.entries(), 3u);
}

TEST(LadderCommand, PrintsAnEarlierRunAgain) {
  const Scratch scratch;
  const Program measured =
      run_program("ladder --case 2,128,32 --repeats 1 --rungs sequential --output out.jsonl", scratch);
  ASSERT_EQ(measured.code, 0) << measured.errors;
  const std::string table = measured.output.substr(0, measured.output.find("written: ")),
                    chart = scratch.read("out.svg");
  std::filesystem::remove(scratch.path() / "out.svg");
  const Program shown = run_program("ladder --input out.jsonl", scratch);
  EXPECT_EQ(shown.code, 0) << shown.errors;
  EXPECT_EQ(shown.output, table + "written: out.svg, out.md\n");
  EXPECT_EQ(scratch.read("out.svg"), chart);
}

TEST(LadderCommand, PrintsLaunchesOfRungsThatReportThem) {
  const Scratch scratch;
  const auto row = [](const char* rung, const char* launches, const char* name, const char* sizes) {
    return fmt::format(
        R"({{"kind":"rung","rung":"{}","device":"gpu","status":"ok","flops":1e9,{}"split":{{"kernel":0.064}},)"
        R"("case":{{"name":"{}",{}}}}})"
        "\n",
        rung, launches, name, sizes);
  };
  constexpr const char* kT15 = R"("batch":2000,"rows":512,"dim":32)";
  constexpr const char* kT20 = R"("batch":100,"rows":2048,"dim":64)";
  std::ofstream(scratch.path() / "out.jsonl")
      << row("padded", R"("launches":32000,"shared_bytes":25344,)", "t15", kT15)
      << row("padded", R"("launches":6400,"shared_bytes":42240,)", "t20", kT20) << row("library", "", "t20", kT20)
      << row("shared", R"("launches":0,)", "t20", kT20) << row("registers", R"("launches":null,)", "t20", kT20);
  const Program program = run_program("ladder --input out.jsonl", scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  const std::string document = scratch.read("out.md");
  EXPECT_NE(document.find("### t15 (2000, 512, 32): kernel launches"), std::string::npos) << document;
  EXPECT_NE(document.find("| padded | 32000 | 2.00 | 25344 |  |"), std::string::npos) << document;
  EXPECT_NE(document.find("| padded | 6400 | 10.0 | 42240 |  |"), std::string::npos) << document;
  const std::string tables = document.substr(document.find("t15 (2000, 512, 32): kernel launches"));
  for (const char* rung : {"| library", "| shared |", "| registers"})
    EXPECT_EQ(tables.find(rung), std::string::npos) << tables;
}

TEST(LadderCommand, ChartsOfAnEarlierRunAreRemoved) {
  const Scratch scratch;
  const std::string command = "ladder --repeats 1 --scale 0.001 --rungs cpu-library --output out.jsonl --case ";
  ASSERT_EQ(run_program(command + "t01,t02", scratch).code, 0);
  ASSERT_TRUE(std::filesystem::exists(scratch.path() / "out-2.svg"));
  ASSERT_EQ(run_program(command + "t01", scratch).code, 0);
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "out-2.svg"));
  EXPECT_EQ(scratch.entries(), 3u);
}

// Writes rows, a document and a chart as an earlier run would. The next run removes them before it writes its first
// row.
void put_earlier_ladder(const Scratch& scratch) {
  std::ofstream(scratch.path() / "out.jsonl") << "{\"kind\":\"earlier\"}\n";
  std::ofstream(scratch.path() / "out.md") << fmt::format(
      "# The ladder\n\n![The ladder, all](out.svg)\n\n<!-- strobe charts: .svg {:08x}; -->\n", crc32("<svg/>"));
  std::ofstream(scratch.path() / "out.svg") << "<svg/>";
}

TEST(LadderCommand, InterruptedBeforeARowItLeavesEarlierFiles) {
  const Scratch scratch;
  put_earlier_ladder(scratch);
  // A long case whose sequence length no other test on this machine uses.
  const std::string one = "3," + std::to_string(16000 + getpid() % 1000) + ",64";
  Background program("ladder --case " + one + " --limit 1000 --rungs sequential --output out.jsonl", scratch, "errors");
  ASSERT_TRUE(becomes([&] { return processes_with("--json\0--case\0"s + one) >= 1; }));
  program.send(SIGINT);
  EXPECT_EQ(program.wait(), 130);
  EXPECT_EQ(scratch.read("errors"), "strobe: ladder: ended by a signal; nothing was measured, no file was changed\n");
  EXPECT_EQ(scratch.read("out.jsonl"), "{\"kind\":\"earlier\"}\n");
  EXPECT_EQ(scratch.entries(), 4u);
}

TEST(LadderCommand, InterruptedItNamesTheFileOfItsRows) {
  const Scratch scratch;
  put_earlier_ladder(scratch);
  // cpu-library ends soon, sequential takes much longer.
  Background program(
      "ladder --case 1,2048,64 --limit 1000 --repeats 40 --rungs cpu-library,sequential --output out.jsonl", scratch,
      "errors");
  ASSERT_TRUE(becomes([&] { return scratch.read("out.jsonl").find("cpu-library") != std::string::npos; }));
  program.send(SIGINT);
  EXPECT_EQ(program.wait(), 130);
  EXPECT_EQ(scratch.read("errors"), "strobe: ladder: ended by a signal; rows measured so far are in out.jsonl\n");
  EXPECT_EQ(scratch.entries(), 2u);
  EXPECT_EQ(run_program("ladder --input out.jsonl", scratch).code, 0);
}

// A chart that the user put next to the rows remains, and so does one that the user changed.
TEST(LadderCommand, RemovesOnlyChartsThatItWroteItself) {
  const Scratch scratch;
  ASSERT_EQ(run_program("ladder --case 1,64,32 --repeats 1 --rungs cpu-library --output out.jsonl", scratch).code, 0);
  std::string document = scratch.read("out.md");
  const std::size_t list = document.rfind("<!-- strobe charts:");
  ASSERT_NE(list, std::string::npos);
  std::ofstream(scratch.path() / "out-mine.svg") << "<svg/>";
  std::ofstream(scratch.path() / "out-changed.svg") << "<svg>changed</svg>";
  std::ofstream(scratch.path() / "out-old.svg") << "<svg/>";
  document.insert(list, "![mine](out-mine.svg)\n\n");
  document.replace(document.rfind(" -->"), 4,
                   fmt::format(" -old.svg {0:08x}; -changed.svg {0:08x}; -->", crc32("<svg/>")));
  std::ofstream(scratch.path() / "out.md") << document;
  ASSERT_EQ(run_program("ladder --input out.jsonl", scratch).code, 0);
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "out-mine.svg"));
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / "out-changed.svg"));
  EXPECT_FALSE(std::filesystem::exists(scratch.path() / "out-old.svg"));
}

// The output file is the executable of a running program, which cannot be opened for writing. To pass as a file of
// rows, it contains the beginning of a row in bytes 8 to 15, which Linux ignores in an ELF header.
TEST(LadderCommand, EarlierDocumentsRemainIfTheFileCannotBeOpened) {
  const Scratch scratch;
  put_earlier_ladder(scratch);
  const Program program = run_command(
      "rm out.jsonl && cp \"$(command -v sleep)\" out.jsonl && printf '{\"kind\":' | "
      "dd of=out.jsonl bs=1 seek=8 conv=notrunc status=none && { ./out.jsonl 60 & "
      "until cmp -s /proc/$!/exe out.jsonl; do sleep 0.01; done; '" STROBE_PROGRAM
      "' ladder --case 1,128,32 --repeats 1 --rungs cpu-library --output out.jsonl; code=$?; kill $!; exit $code; }",
      scratch);
  EXPECT_EQ(program.code, 3) << program.errors;
  EXPECT_EQ(program.errors, "strobe: out.jsonl: cannot be written: Text file busy\n");
  EXPECT_EQ(scratch.read("out.svg"), "<svg/>");
  EXPECT_EQ(scratch.entries(), 3u);
}

TEST(LadderCommand, EarlierFilesRemainIfNothingCanRun) {
  const Scratch scratch;
  put_earlier_ladder(scratch);
  const Program program =
      run_program("ladder --case 1,128,32 --rungs shared,pinned --tiles --output out.jsonl", scratch);
  EXPECT_EQ(program.code, 2) << program.errors;
  EXPECT_TRUE(program.errors.starts_with("strobe: ladder: nothing could be run: shared, pinned, --tiles: "))
      << program.errors;
  EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << program.errors;
  EXPECT_EQ(program.output, "");
  EXPECT_EQ(scratch.read("out.jsonl"), "{\"kind\":\"earlier\"}\n");
  EXPECT_EQ(scratch.entries(), 3u);
}

// Replaces strobe-lab with a program that writes nothing.
TEST(LadderCommand, ReportsThatThereAreNoRows) {
  const Scratch scratch;
  const Program program = run_command(
      "cp '" STROBE_PROGRAM "' strobe && cp /bin/true strobe-lab && ./strobe ladder --output out.jsonl", scratch);
  EXPECT_EQ(program.code, 3) << program.errors;
  EXPECT_EQ(program.errors, "strobe: ladder: strobe-lab wrote no rows\n");
}

TEST(LadderCommand, PrintsCountersAsNotAvailable) {
  const Scratch scratch;
  const Program program =
      run_program("ladder --case 1,128,32 --repeats 1 --rungs cpu-library,shared --profile", scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("achieved occupancy"), std::string::npos) << program.output;
  EXPECT_NE(program.output.find("not available"), std::string::npos) << program.output;
}

TEST(LadderCommand, ReportsThatThereAreNoCounters) {
  const Scratch scratch;
  const Program program = run_program("ladder --case 1,128,32 --repeats 1 --rungs cpu-library --profile", scratch);
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_EQ(program.errors, "note: --profile reads GPU counters, but none of these rungs runs on a GPU\n");
}

TEST(LadderCommand, BadInputIsOneLineAndLeavesNothing) {
  const Scratch scratch;
  for (const char* flags : {"--case t31",
                            "--case 0,128,32",
                            "--case 1,2",
                            "--scale 0",
                            "--scale 1.5",
                            "--rungs shraed",
                            "--rungs none",
                            "--case t01,t28,t01",
                            "--case t10-t01",
                            "--case t01-t03,t02",
                            "--rungs sequential,sequential",
                            "--repeats 0",
                            "--limit x",
                            "--output out.txt",
                            "--output /nowhere/out.jsonl",
                            "--input none.jsonl",
                            "--input out.txt",
                            "--input a.jsonl --case t28",
                            "--input a.jsonl --output b.jsonl",
                            "--input=",
                            "--colour red",
                            "stray"}) {
    const Program program = run_program(std::string("ladder ") + flags, scratch);
    EXPECT_EQ(program.code, 2) << flags << "\n" << program.errors;
    EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << flags << "\n" << program.errors;
    EXPECT_EQ(scratch.entries(), 0u) << flags;
  }
}

constexpr const char* kLab = "\"$(dirname '" STROBE_PROGRAM "')/strobe-lab\" ";

Program run_lab(const std::string& arguments, const Scratch& scratch) {
  return run_command("CUDA_VISIBLE_DEVICES= " + (kLab + arguments), scratch);
}

TEST(LabProgram, SolvesAFileByARung) {
  const Scratch scratch;
  // B 2, N 3, d 1. All keys of a batch are equal, so each output is the mean of the batch's values.
  const std::int32_t sizes[] = {2, 3, 1};
  const float values[] = {1, 2, 3, 5, 5, 5, 1, 2, 6, /* second batch */ 1, 2, 3, 0, 0, 0, 10, 20, 60};
  std::ofstream file(scratch.path() / "in", std::ios::binary);
  file.write(reinterpret_cast<const char*>(sizes), sizeof(sizes));
  file.write(reinterpret_cast<const char*>(values), sizeof(values));
  file.close();
  for (const char* rung : {"sequential", "cpu-library"}) {
    const Program program = run_lab(std::string("--rung ") + rung + " --input in --output out --timing", scratch);
    EXPECT_EQ(program.code, 0) << program.errors;
    EXPECT_NE(program.output.find("(B, N, d): (2, 3, 1)\nTime: "), std::string::npos) << program.output;
    const std::string bytes = scratch.read("out");
    ASSERT_EQ(bytes.size(), 6 * sizeof(float));
    std::vector<float> o(6);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(o.data()));
    for (int i = 0; i < 6; ++i) EXPECT_NEAR(o[static_cast<std::size_t>(i)], i < 3 ? 3 : 30, 1e-4) << rung << " " << i;
  }
}

TEST(LabProgram, BadInputIsOneLineAndLeavesNothing) {
  const Scratch scratch;
  std::ofstream(scratch.path() / "short") << "abc";
  for (const char* flags : {"--rung sequential --input none --output out",
                            "--rung sequential --input short --output out", "--rung sequential --input short",
                            "--input short --output out", "--frob", "--rung nope --input short --output out"}) {
    const Program program = run_lab(flags, scratch);
    EXPECT_EQ(program.code, 2) << flags << "\n" << program.errors;
    EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << flags << "\n" << program.errors;
    EXPECT_EQ(scratch.entries(), 1u) << flags;
  }
}

TEST(LabProgram, ListsEveryRungInEveryBuild) {
  const Program program = run_lab("--list", Scratch());
  EXPECT_EQ(std::count(program.output.begin(), program.output.end(), '\n'), 16) << program.output;
}

}  // namespace
}  // namespace strobe::test
