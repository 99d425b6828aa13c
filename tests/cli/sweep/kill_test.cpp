// Tests a sweep that is killed at random times, or ended by a signal: no row is lost, repeated or incomplete, and no
// child process remains.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>

#include "cli/background.h"
#include "core/json.h"
#include "core/temporary_file.h"

namespace strobe::test {
namespace {

// 20 cells of about 30 ms. The seed identifies the processes of this test.
const std::string kMark = std::to_string(1000000 + getpid());
const std::string kAnySweep =
    "sweep --batch 1 --heads 2 --emb 16 --dtype fp32 --seq_len 16,17,18,19,20 --causal both "
    "--impl Flash2,Pytorch --time-limit 0.01 --quick --json-dir cells --seed " +
    kMark;
const std::string kSweep = kAnySweep + " --repeats 1";
constexpr std::size_t kCells = 20;

std::size_t whole_rows(const std::string& text) {
  std::set<std::string> cells;
  std::size_t rows = 0;
  std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
  for (std::string line; std::getline(lines, line); ++rows) {
    const Json row = Json::parse(line);
    EXPECT_EQ(row.at("status").as_string(), "ok") << line.substr(0, 600);
    cells.insert(row.at("config").dump() + row.at("implementation").as_string());
  }
  EXPECT_EQ(cells.size(), rows) << "a row is repeated";
  return rows;
}

void expect_no_children() {
  EXPECT_TRUE(becomes([] { return processes_with(kMark) == 0; }));
}

int kills_wanted() {
  const char* text = std::getenv("STROBE_TEST_KILLS");
  return text ? std::atoi(text) : 6;
}

TEST(SweepKilled, EndsWithExactlyOneRowPerCell) {
  std::mt19937 random(static_cast<unsigned>(getpid()));
  std::uniform_real_distribution<double> delay(0.005, 0.4);
  int kills = 0;
  while (kills < kills_wanted()) {
    const Scratch scratch;
    std::string before;
    for (bool killed = true; killed;) {
      Background sweep(kSweep, scratch);
      if (kills < kills_wanted()) {
        pause_for(delay(random));
        sweep.send(SIGKILL);
      }
      const int code = sweep.wait();
      killed = code == 128 + SIGKILL;
      ASSERT_TRUE(killed || code == 0) << code;
      kills += killed ? 1 : 0;
      const std::string after = scratch.read("sweep.jsonl");
      const std::string kept = before.substr(0, before.rfind('\n') + 1);
      ASSERT_EQ(after.substr(0, kept.size()), kept) << "a row is lost";
      whole_rows(after);
      before = after;
    }
    EXPECT_EQ(whole_rows(before), kCells);
    std::size_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(scratch.path() / "cells")) {
      if (stem_of_temporary(entry.path().filename().string())) continue;  // temporary file of a killed sweep
      Json::parse(scratch.read("cells/" + entry.path().filename().string()));
      ++files;
    }
    EXPECT_EQ(files, kCells);
  }
  expect_no_children();
}

TEST(SweepSignalled, EndsItsChildrenAndLeavesACompleteFile) {
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    const Scratch scratch;
    const std::string slow = kAnySweep + " --repeats 1000000";
    {
      Background sweep(slow, scratch);
      ASSERT_TRUE(becomes([] { return processes_with(kMark) >= 2; }));  // the sweep and its child
      sweep.send(signal);
      EXPECT_EQ(sweep.wait(), code);
    }
    expect_no_children();
    const std::string text = scratch.read("sweep.jsonl");
    EXPECT_TRUE(text.empty() || text.back() == '\n');
    whole_rows(text);
  }
}

}  // namespace
}  // namespace strobe::test
