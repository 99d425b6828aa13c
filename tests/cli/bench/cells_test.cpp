// Tests `strobe bench --cells`, which measures the configurations that a file lists.
#include <gtest/gtest.h>

#include "cli/run_program.h"
#include "core/json.h"

namespace strobe::test {
namespace {

constexpr const char* kCommand = "bench --quick --repeats 2 --batch_size 1 --num_heads 2 --emb_dim 32 --cells cells ";

// A scratch folder with a file `cells`.
struct Cells {
  Scratch scratch;
  explicit Cells(const std::string& text) { std::ofstream(scratch.path() / "cells") << text; }
  Program run(const std::string& arguments) const { return run_program(arguments, scratch); }
};

TEST(Cells, AllConfigurationsOfAFileAreOneRun) {
  const Cells cells(
      "# two lines, three configurations\n--seq_len 16 --dtype fp32\n \n  # and a remark\n--seq_len 24 "
      "--causal=both\n");
  const Program program = cells.run(std::string(kCommand) + "--impl Flash2,Pytorch");
  ASSERT_EQ(program.code, 0) << program.errors;
  const Json json = Json::parse(cells.scratch.read("benchmark_result.json"));
  ASSERT_EQ(json.as_array().size(), 6u);
  const auto config = [&](std::size_t row) { return json.as_array()[row].at("config"); };
  EXPECT_EQ(config(0).at("seq_len").as_integer(), 16);
  EXPECT_EQ(config(1).at("dtype").as_string(), "fp32");
  EXPECT_EQ(config(2).at("dtype").as_string(), "fp16");
  EXPECT_EQ(config(2).at("num_heads").as_integer(), 2);
  EXPECT_FALSE(config(3).at("causal").as_bool());
  EXPECT_TRUE(config(4).at("causal").as_bool());
}

TEST(Cells, CaseTextMayPrecedeFlags) {
  const Cells cells("b2 h4/2 s16x24 d8 bf16 causal=bottom_right window=3:0 sinks\nh2 s16 fp32 --causal both\n");
  const Program program = cells.run(kCommand);
  ASSERT_EQ(program.code, 0) << program.errors;
  const Json json = Json::parse(cells.scratch.read("benchmark_result.json"));
  ASSERT_EQ(json.as_array().size(), 3u);
  const Json& first = json.as_array()[0].at("config");
  EXPECT_EQ(first.at("batch_size").as_integer(), 2);
  EXPECT_EQ(first.at("num_kv_heads").as_integer(), 2);
  EXPECT_EQ(first.at("seq_len_k").as_integer(), 24);
  EXPECT_EQ(first.at("emb_dim").as_integer(), 32);
  EXPECT_EQ(first.at("align").as_string(), "bottom_right");
  EXPECT_EQ(first.at("window").dump(), "[3,0]");
  EXPECT_TRUE(first.at("sinks").as_bool());
  EXPECT_EQ(json.as_array()[2].at("config").at("emb_dim").as_integer(), 32);  // the value of the command line
}

TEST(Cells, ConfigurationsReportWhetherTheyWereScaled) {
  const Cells cells("--batch_size 2 --num_heads 2 --emb_dim 32\n--num_heads 2 --emb_dim 32\n");
  const Program program = cells.run("bench --quick --repeats 1 --seq_len 8 --pass forward --cells cells");
  ASSERT_EQ(program.code, 0) << program.errors;
  const Json json = Json::parse(cells.scratch.read("benchmark_result.json"));
  EXPECT_FALSE(json.as_array()[0].at("config").at("scaled").as_bool());
  EXPECT_TRUE(json.as_array()[1].at("config").at("scaled").as_bool());
  EXPECT_NE(program.output.find("note: defaults scaled for a CPU: --batch_size 32 -> 1;"), std::string::npos)
      << program.output;
}

TEST(Cells, APipeIsRejectedWithoutWaiting) {
  const Scratch scratch;
  const Program program = run_command("mkfifo pipe && timeout 20 '" STROBE_PROGRAM "' bench --cells pipe", scratch);
  EXPECT_EQ(program.code, 2);
  EXPECT_EQ(program.errors,
            "strobe: --cells pipe: is not a regular file; valid: a file with one configuration per line\n");
}

TEST(Cells, AFileWithoutConfigurationsIsRejected) {
  const Program program = Cells("# nothing\n").run(kCommand);
  EXPECT_EQ(program.code, 2);
  EXPECT_EQ(program.errors,
            "strobe: --cells cells: has no configuration; valid: one line of flags per configuration\n");
}

TEST(Cells, ExplainAcceptsCells) {
  const Program program = Cells("--seq_len 16\n--seq_len 24\n").run("explain --quick --batch_size 1 --cells cells");
  EXPECT_EQ(program.code, 0) << program.errors;
  EXPECT_NE(program.output.find("sequence 16"), std::string::npos);
  EXPECT_NE(program.output.find("sequence 24"), std::string::npos);
}

TEST(Cells, BadConfigurationsAreRejectedWithFileAndLine) {
  const struct {
    const char* line;
    const char* says;
  } table[] = {{"--impl standard", "--impl: not a flag of a configuration; valid: --batch_size, "},
               {"--threads 1", "--threads: not a flag of a configuration; valid: --batch_size, "},
               {"--device cpu", "--device: not a flag of a configuration; "},
               {"--repeats 3", "--repeats: not a flag of a configuration; "},
               {"--seq_len 8 --help", "--help: not a flag of a configuration"},
               {"--seq_len 8x", "--seq_len 8x: not a whole number"},
               {"--emb_dim 33", "--emb_dim 33: not a multiple of --num_heads 2"},
               {"--seq_len 2147483647", "attention: "},
               {"stray", "\"stray\": not a flag"},
               {"b2 s16y", "\"s16y\": not part of a case; valid: bN, hN/KV, "},
               {"b2 s16 d8/4", "--head_dim_v: not a flag of a configuration; "},
               {"b2 d8 --emb_dim 32", "--head_dim 8: with --emb_dim 32; valid: one of the two"}};
  for (const auto& row : table) {
    const Cells cells(std::string("# remark\n--seq_len 16\n") + row.line + "\n");
    const Program program = cells.run(kCommand);
    EXPECT_EQ(program.code, 2) << row.line;
    EXPECT_EQ(program.errors.rfind(std::string("strobe: cells:3: ") + row.says, 0), 0u) << program.errors;
    EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << program.errors;
    EXPECT_EQ(cells.scratch.entries(), 1u) << row.line;
  }
}

TEST(Cells, ABinaryFileIsQuotedWithEscapedControlBytes) {
  const Cells cells(std::string("\x7f"
                                "ELF\0\x1b[2J",
                                9) +
                    std::string(1000, 'x') + "\n");
  const Program program = cells.run(kCommand);
  EXPECT_EQ(program.code, 2);
  const std::string rest(80 - std::string("\\x7fELF\\x00\\x1b[2J").size(), 'x');
  EXPECT_EQ(program.errors, "strobe: cells:1: \"\\x7fELF\\x00\\x1b[2J" + rest +
                                "...\": not a flag; flags have the form --NAME (see --help)\n");
}

TEST(Cells, EndlessFilesAreNotReadToTheEnd) {
  const Cells cells("");
  std::filesystem::resize_file(cells.scratch.path() / "cells", std::uintmax_t{1} << 40);  // a sparse file
  const Program program = cells.run(kCommand);
  EXPECT_EQ(program.code, 2);
  EXPECT_NE(program.errors.find("--cells cells: more than 1048576 bytes"), std::string::npos) << program.errors;
  EXPECT_NE(run_program("bench --cells /dev/zero").errors.find("is not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace strobe::test
