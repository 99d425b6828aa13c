// Tests training on a GPU: it resumes bit for bit and agrees with the CPU.
#include <gtest/gtest.h>

#include "lm/resume.h"
#include "support/gpu.h"

namespace strobe::lm {
namespace {

using GpuTrainer = test::GpuTest;

constexpr const char* kGpuText = STROBE_TEST_DATA "/lm/lighthouse.txt";

Settings small_settings(const TokenFile& data, Precision precision) {
  Settings settings;
  settings.shape = {.d_model = 64, .d_ff = 128, .layers = 2, .heads = 2, .vocabulary = 256, .context = 48};
  settings.batch = 4;
  settings.steps = 9;
  settings.warmup = 2;
  settings.precision = precision;
  settings.device = Device::cuda;
  settings.data = identity_of(data);
  return settings;
}

TEST_F(GpuTrainer, ResumesBitForBit) {
  const TokenFile data(kGpuText, DataFormat::text, "--data");
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
    expect_resumes_bit_for_bit(small_settings(data, precision), data);
  }
}

TEST_F(GpuTrainer, TrainsAsOnTheCpu) {
  const TokenFile data(kGpuText, DataFormat::text, "--data");
  Settings settings = small_settings(data, Precision::fp32);
  Trainer gpu(settings, data, 2);
  settings.device = Device::cpu;
  Trainer cpu(settings, data, 2);
  gpu.begin();
  cpu.begin();
  const std::vector<double> found = losses_of(gpu), expected = losses_of(cpu);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i] / expected[i], 1, 1e-4) << i;
  EXPECT_NEAR(gpu.validate(data, 0).loss / cpu.validate(data, 0).loss, 1, 1e-3);
}

}  // namespace
}  // namespace strobe::lm
