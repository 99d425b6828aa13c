// Tests the GPT-2 architecture as users select it: by --arch gpt2, or by a size that implies it.
#include <gtest/gtest.h>

#include "cli/lm/run.h"

namespace strobe::test {
namespace {

TEST(LmGpt2, TrainsResumesBitForBitAndSamples) {
  const Scratch scratch;
  const Program whole = run_program(kSmall + "--arch gpt2 --out whole --steps 6", scratch);
  ASSERT_EQ(whole.code, 0) << whole.errors;
  EXPECT_NE(whole.output.find("gpt2: d_model 32, d_ff 64, layers 2, heads 4"), std::string::npos) << whole.output;
  ASSERT_EQ(run_program(kSmall + "--arch gpt2 --out run --steps 6 --checkpoint-every 2", scratch).code, 0);
  const std::string resume = "lm train --quick --threads 1 --out run --data " + kText + " --resume";
  ASSERT_EQ(run_program(resume + "=2 --arch gpt2", scratch).code, 0);
  EXPECT_EQ(scratch.read("run/step-00000006.safetensors"), scratch.read("whole/step-00000006.safetensors"));
  EXPECT_LT(losses_in(scratch, "run").back(), losses_in(scratch, "run").front());
  expect_refusal(run_program(resume + " --arch llama", scratch), 2,
                 "--arch llama: the checkpoint was trained with gpt2; leave it out, or start in another folder");
  expect_refusal(run_program(resume + " --size tiny", scratch), 2, "--size tiny: the checkpoint was trained with gpt2");

  const std::string sample = "lm sample --checkpoint run --threads 1 --tokens 8 --prompt ab";
  const Program text = run_program(sample, scratch);
  ASSERT_EQ(text.code, 0) << text.errors;
  EXPECT_EQ(run_program(sample + " --arch gpt2", scratch).output, text.output);
  expect_refusal(run_program(sample + " --arch llama", scratch), 2, "--arch llama: the checkpoint's is gpt2");
}

TEST(LmGpt2, IsImpliedByItsSizes) {
  const Scratch scratch;
  const std::string size = "--steps 1 --sample-tokens 0 --size ddp-small ";
  const Program own = run_program(kSmall + size + "--out own", scratch);
  ASSERT_EQ(own.code, 0) << own.errors;
  EXPECT_NE(own.output.find("gpt2: d_model 32"), std::string::npos) << own.output;
  const Program other = run_program(kSmall + size + "--arch llama --out other", scratch);
  EXPECT_NE(other.output.find("llama: d_model 32"), std::string::npos) << other.output;
  expect_refusal(run_program(kSmall + "--arch bert --out none", scratch), 2, "--arch bert");
}

// The memory that `lm memory` and `lm bench` measure must equal the bytes of `strobe plan`. `lm profile` must list the
// operations of GPT-2.
TEST(LmGpt2, IsMeasuredAndPlanned) {
  const Scratch scratch;
  const std::string cell = " --arch gpt2 --size tiny --context 16 --batch 2 --threads 1 ";
  ASSERT_EQ(run_program("lm memory" + cell, scratch).code, 0);
  const Json memory = Json::parse(scratch.read("lm_memory_result.json"));
  EXPECT_EQ(memory.at("rows").as_array()[1].at("arch").as_string(), "gpt2");
  const Program plan = run_program(
      "plan" + cell + "--precision fp32 --devices 1 --machine here --flops 1 --memory-bandwidth 10", scratch);
  ASSERT_EQ(plan.code, 0) << plan.errors;
  EXPECT_NE(plan.output.find("tiny (gpt2), "), std::string::npos) << plan.output;
  EXPECT_EQ(Json::parse(scratch.read("plan.json")).at("rows").as_array()[0].at("memory_bytes").at("total").as_integer(),
            memory.at("rows").as_array()[1].at("counted_bytes").as_integer());

  const Program bench = run_program("lm bench" + cell + "--quick --warmup 0 --steps 2 --output bench.json", scratch);
  ASSERT_EQ(bench.code, 0) << bench.errors;
  EXPECT_NE(bench.output.find("tiny (gpt2)"), std::string::npos) << bench.output;
  const Program check = run_program("plan --machine here --bench bench.json --check bench.json", scratch);
  ASSERT_EQ(check.code, 0) << check.errors;
  EXPECT_NE(check.output.find("memory MiB: median error 0.0 % of 1, at most 0.0 %"), std::string::npos) << check.output;
  expect_refusal(run_program("plan --check bench.json --arch gpt2", scratch), 2, "--arch: has no effect here");

  const Program profile = run_program("lm profile" + cell + "--warmup 1 --steps 2", scratch);
  ASSERT_EQ(profile.code, 0) << profile.errors;
  for (const char* const operation : {"gelu backward", "layer_norm backward", "bias backward", "positions backward"}) {
    EXPECT_NE(profile.output.find(operation), std::string::npos) << profile.output;
  }
}

}  // namespace
}  // namespace strobe::test
