// Helpers for tests of `strobe lm train`: a small model on a small text, its losses, and expected errors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cli/run_program.h"
#include "core/json.h"

namespace strobe::test {

inline const std::string kText = STROBE_TEST_DATA "/lm/lighthouse.txt";
inline const std::string kSmall =
    "lm train --data " + kText +
    " --d-model 32 --d-ff 64 --layers 2 --heads 4 --context 32 --batch 4 --lr 0.003 --threads 1 --quick ";

// Flags of a model in which only the first fp16 step overflows: the initial loss scale of 65536 is too large for the
// gradient of a logit.
inline const std::string kOverflowing =
    "--precision fp16 --d-model 16 --d-ff 24 --layers 1 --heads 2 --vocabulary 20000 --context 1 --batch 1 --threads "
    "1 ";

// Reads only complete lines, because the program may be writing another one.
inline std::vector<double> losses_in(const Scratch& scratch, const std::string& folder) {
  std::vector<double> losses;
  const std::string text = scratch.read(folder + "/steps.jsonl");
  std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    if (row.find("loss")) losses.push_back(row.at("loss").as_number());
  }
  return losses;
}

inline void expect_refusal(const Program& program, int code, const std::string& part) {
  EXPECT_EQ(program.code, code) << program.errors;
  EXPECT_NE(program.errors.find(part), std::string::npos) << program.errors;
  EXPECT_EQ(std::count(program.errors.begin(), program.errors.end(), '\n'), 1) << program.errors;
}

}  // namespace strobe::test
