// Helpers for tests of `strobe lm train --ddp`: start a job of several ranks, run a script on each rank, and compare
// two runs.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "cli/lm/run.h"
#include "comm/engine.h"
#include "lm/train/checkpoint.h"

namespace strobe::test {

inline const std::string kSteps8 = "--steps 8 --checkpoint-every 4 --keep 0 --sample-tokens 0 --eps 1e-5 ";

class LmDdp : public testing::Test {
 protected:
  static std::string checkpoint(std::int64_t step) { return fmt::format("step-{:08}.safetensors", step); }

  void SetUp() override {
    if (const char* why = comm::why_no_mpi()) GTEST_SKIP() << why;
    if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "no mpirun in PATH";
  }

  // Uses a long grace period, so that each rank ends by itself even on a busy machine.
  Program launch(int ranks, const std::string& command, const std::string& flags = "") const {
    return run_program(fmt::format("launch -n {} --grace 60 {} -- {}", ranks, flags, command), scratch_);
  }
  Program train(int ranks, const std::string& flags) const { return launch(ranks, kSmall + kSteps8 + flags); }

  // Writes a program for all ranks that runs `before` and then `strobe lm train` with these flags. Both may use $rank.
  std::string script(const std::string& before, const std::string& flags, const std::string& train = kSmall) const {
    std::ofstream(scratch_.path() / "rank.sh") << "#!/bin/sh\nrank=$OMPI_COMM_WORLD_RANK\n"
                                               << before << "\nexec '" STROBE_PROGRAM "' " << train << flags << "\n";
    std::filesystem::permissions(scratch_.path() / "rank.sh", std::filesystem::perms::owner_all);
    return "./rank.sh";
  }

  // Copies the run `from` without its checkpoint of step 8, so that `to` resumes after step 4.
  void copy_half(const std::string& from, const std::string& to) const {
    std::filesystem::copy(scratch_.path() / from, scratch_.path() / to);
    std::filesystem::remove(scratch_.path() / to / checkpoint(8));
  }

  std::vector<double> column(const std::string& folder, const char* key) const {
    std::vector<double> values;
    std::istringstream lines(scratch_.read(folder + "/steps.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const Json row = Json::parse(line);
      if (row.find(key)) values.push_back(row.at(key).as_number());
    }
    return values;
  }

  std::string bytes(const std::string& folder, std::int64_t step) const {
    return scratch_.read(folder + "/" + checkpoint(step));
  }

  // Expects losses, gradient norms and the tensors of the checkpoint of step 8 to be close to those of `wanted`. `most`
  // limits the relative difference. For a tensor it is the norm of the difference divided by the norm of `wanted`.
  void expect_close(const std::string& found, const std::string& wanted, double most) const {
    for (const char* key : {"loss", "gradient_norm", "validation_loss"}) {
      const std::vector<double> one = column(found, key), other = column(wanted, key);
      ASSERT_EQ(one.size(), other.size()) << key;
      for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], other[i], most * other[i]) << found << key << i;
    }
    const lm::Checkpoint one(scratch_.path() / found / checkpoint(8)), other(scratch_.path() / wanted / checkpoint(8));
    EXPECT_EQ(one.settings(), other.settings());
    EXPECT_EQ(one.progress(), other.progress());
    for (const lm::State which : {lm::State::values, lm::State::mean, lm::State::variance}) {
      for (const lm::Parameter& parameter : lm::parameter_table(one.settings().shape)) {
        double squares = 0, differences = 0;
        for (std::int64_t i = parameter.first; i < parameter.first + parameter.count(); ++i) {
          const double x = one.state(which)[static_cast<std::size_t>(i)];
          const double y = other.state(which)[static_cast<std::size_t>(i)];
          squares += y * y;
          differences += (x - y) * (x - y);
        }
        EXPECT_LE(std::sqrt(differences), most * std::sqrt(squares)) << found << ": " << parameter.name;
      }
    }
  }

  const Scratch scratch_;
};

}  // namespace strobe::test
