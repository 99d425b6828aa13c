// Stops training after each step and resumes it from its checkpoint, with another number of threads and each
// recomputation mode. Losses and the bytes of checkpoints must be the same. For tests on the CPU and on a GPU.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lm/train/trainer.h"
#include "support/scratch.h"

namespace strobe::lm {

inline std::vector<double> losses_of(Trainer& trainer) {
  std::vector<double> losses;
  while (!trainer.done()) losses.push_back(trainer.step().loss);
  return losses;
}

inline void expect_resumes_bit_for_bit(const Settings& settings, const TokenFile& data) {
  const test::Scratch scratch;
  const std::string path = (scratch.path() / "a").string();
  Trainer whole(settings, data, 2);
  whole.begin();
  const std::vector<double> losses = losses_of(whole);
  whole.save((scratch.path() / "whole").string());
  for (std::size_t taken = 0; taken < losses.size(); ++taken) {
    Trainer part(settings, data, 1, static_cast<Recompute>(taken % 3));
    if (taken == 0) {
      part.begin();
    } else {
      part.resume(Checkpoint(path));
    }
    EXPECT_EQ(part.step().loss, losses[taken]) << name_of(settings.precision) << " step " << taken + 1;
    part.save(path);
  }
  EXPECT_EQ(scratch.read("a"), scratch.read("whole")) << name_of(settings.precision);
}

}  // namespace strobe::lm
