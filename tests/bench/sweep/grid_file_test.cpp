// Tests the format of a sweep's grid files, and the folders in which they are searched.
#include "bench/sweep/grid_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "strobe/error.h"
#include "support/corpus.h"
#include "support/fuzz_grid_file.h"
#include "support/scratch.h"

namespace strobe::bench {
namespace {

std::string refusal_of(std::string_view text) {
  try {
    parse_grid("mine", text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "accepted";
}

TEST(GridFile, CommonFlagsPrecedeEveryLaterBlock) {
  const Grid grid = parse_grid("mine",
                               "# remark\nabout two blocks\nrun --repeats 3\ncells --seq 1\n\n"
                               "common --emb 64\r\n  cells --seq 2,3\n");
  EXPECT_EQ(grid.about, "two blocks");
  EXPECT_EQ(grid.run, (std::vector<std::string>{"--repeats", "3"}));
  ASSERT_EQ(grid.blocks.size(), 2u);
  EXPECT_EQ(grid.blocks[0], (std::vector<std::string>{"--seq", "1"}));
  EXPECT_EQ(grid.blocks[1], (std::vector<std::string>{"--emb", "64", "--seq", "2,3"}));
}

TEST(GridFile, CaseTextPrecedesTheFlags) {
  const Grid grid = parse_grid("mine", "common bf16 causal=both --impl flash2\ncells b2,4 h4/2 s64 --pass forward\n");
  EXPECT_EQ(grid.blocks[0],
            (std::vector<std::string>{"--dtype=bf16", "--causal=both", "--impl", "flash2", "--batch_size=2,4",
                                      "--num_heads=4", "--num_kv_heads=2", "--seq_len=64", "--pass", "forward"}));
  EXPECT_EQ(refusal_of("cells b2 S3\n").find("--grid mine: line 1: \"S3\": not part of a case"), 0u);
}

TEST(GridFile, BadLinesAreReported) {
  EXPECT_EQ(refusal_of("about x\ncell --seq 1\n"),
            "--grid mine: line 2: \"cell\"; valid: about, run, peers, common, cells, #");
  EXPECT_EQ(refusal_of("garbage\n"), "--grid mine: line 1: \"garbage\"; valid: about, run, peers, common, cells, #");
  EXPECT_EQ(refusal_of("cells\n"), "--grid mine: line 1: nothing after \"cells\"");
  EXPECT_EQ(refusal_of("about a\nabout b\n"), "--grid mine: line 2: a second \"about\"");
  EXPECT_EQ(refusal_of("about a\n"), "--grid mine: no \"cells\" line");
  EXPECT_EQ(refusal_of(""), "--grid mine: no \"cells\" line");
  EXPECT_EQ(refusal_of(std::string_view("cells \0\n", 8)), "--grid mine: line 1: a control character; not a text file");
  std::string many;
  for (int i = 0; i < 1001; ++i) many += "cells --seq 1\n";
  EXPECT_EQ(refusal_of(many), "--grid mine: line 1001: more than 1000 lines of cells");
}

TEST(GridFile, PeersAreTorchImplementations) {
  EXPECT_EQ(parse_grid("mine", "peers torch-naive,torch-sdpa\ncells --seq 1\n").peers,
            (std::vector<std::string>{"torch-naive", "torch-sdpa"}));
  const std::string valid = "; valid: torch-sdpa, torch-math, torch-naive";
  EXPECT_EQ(refusal_of("peers cudnn\n").find("--grid mine: line 1: \"cudnn\"" + valid), 0u);
  EXPECT_EQ(refusal_of("peers torch-naive,,torch-sdpa\n").find("--grid mine: line 1: \"\"" + valid), 0u);
  EXPECT_EQ(refusal_of("peers torch-naive,torch-naive\n"), "--grid mine: line 1: torch-naive is named twice");
  EXPECT_EQ(refusal_of("peers torch-naive torch-sdpa\n"), "--grid mine: line 1: \"torch-sdpa\" after the list");
  EXPECT_EQ(refusal_of("peers torch-naive\npeers torch-sdpa\n"), "--grid mine: line 2: a second \"peers\"");
}

TEST(GridFile, NamesAreFoundNextToTheProgramAndPathsAnywhere) {
  const test::Scratch scratch;
  const std::filesystem::path& root = scratch.path();
  const std::string program = (root / "bin" / "strobe").string();
  EXPECT_TRUE(named_grids(program).empty());
  std::filesystem::create_directories(root / "share" / "strobe" / "sweeps");
  std::ofstream(root / "share" / "strobe" / "sweeps" / "b.grid") << "cells --seq 1\n";
  std::ofstream(root / "share" / "strobe" / "sweeps" / "a.grid") << "cells --seq 2\n";
  std::ofstream(root / "big.grid") << std::string(70000, '#');
  ASSERT_EQ(named_grids(program).size(), 2u);
  EXPECT_EQ(named_grids(program)[0].name, "a");
  EXPECT_EQ(load_grid("b", program).blocks[0][1], "1");
  EXPECT_EQ(load_grid((root / "share/strobe/sweeps/a.grid").string(), "").blocks[0][1], "2");
  EXPECT_THROW(load_grid("c", program), Error);
  EXPECT_THROW(load_grid("../b", program), Error);
  EXPECT_THROW(load_grid((root / "big.grid").string(), program), Error);
  EXPECT_THROW(load_grid(root.string() + "/", program), Error);
}

// Replays the seeds of the fuzz harness.
TEST(GridFileFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"empty_value", "equals", "flash", "lab5_small", "many"};
  EXPECT_EQ(test::accepted_seeds("grid_file", test::fuzz_grid_file), valid);
}

}  // namespace
}  // namespace strobe::bench
