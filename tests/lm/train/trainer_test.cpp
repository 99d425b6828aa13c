// Tests the trainer: its steps against those of the model, the learning rate schedule, the loss scale of fp16,
// divergence and resumed runs.
#include "lm/train/trainer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <string>

#include "lm/plan/device_memory.h"
#include "lm/resume.h"
#include "lm/train/training_backend.h"
#include "strobe/error.h"
#include "support/scratch.h"

namespace strobe::lm {
namespace {

constexpr const char* kText = STROBE_TEST_DATA "/lm/lighthouse.txt";

Settings small_settings(const TokenFile& data) {
  Settings settings;
  settings.shape = {.d_model = 32, .d_ff = 64, .layers = 2, .heads = 4, .vocabulary = 256, .context = 32};
  settings.batch = 4;
  settings.steps = 30;
  settings.warmup = 5;
  settings.rate = 3e-3;
  settings.least_rate = 3e-4;
  settings.data = identity_of(data);
  return settings;
}

TEST(LearningRate, WarmsUpLinearlyAndDecaysAsACosine) {
  Settings settings;
  settings.rate = 2;
  settings.least_rate = 1;
  settings.warmup = 4;
  settings.steps = 12;
  EXPECT_DOUBLE_EQ(learning_rate(settings, 1), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 4), 2);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 8), 1.5);  // half of the decay from 2 to 1
  EXPECT_DOUBLE_EQ(learning_rate(settings, 12), 1);
  settings.warmup = 0;
  EXPECT_LT(learning_rate(settings, 1), 2);
  settings.warmup = 12;
  EXPECT_DOUBLE_EQ(learning_rate(settings, 12), 2);
}

TEST(LossScale, HalvesAtOnceAndDoublesAfterPatience) {
  LossScale scale;
  scale.overflowed();
  EXPECT_EQ(scale.scale, 32768);
  for (std::int64_t i = 0; i < LossScale::kPatience; ++i) scale.fine();
  EXPECT_EQ(scale.scale, 65536);
  for (int i = 0; i < 100; ++i) scale.overflowed();
  EXPECT_EQ(scale.scale, LossScale::kLeast);
  EXPECT_EQ(scale.skipped, 101);
}

// Repeats the trainer's steps with the model: windows in order, learning rates of the schedule, AdamW steps counted
// from 1, and the clipped norm.
TEST(Trainer, TakesTheModelsSteps) {
  const TokenFile data(kText, DataFormat::text, "--data");
  Settings settings = small_settings(data);
  settings.clip = 0.5;
  Trainer trainer(settings, data, 1);
  trainer.begin();
  Model model(settings.shape, settings.batch, DType::fp32, {.threads = 1});
  model.begin(settings.seed);
  const WindowOrder order(settings.seed, data.windows(settings.shape.context));
  std::vector<std::int32_t> tokens(4 * 32), targets(4 * 32);
  for (std::int64_t step = 1; step <= 6; ++step) {
    for (std::int64_t b = 0; b < 4; ++b) {
      data.read_window(order.at(4 * (step - 1) + b), 32, tokens.data() + 32 * b, targets.data() + 32 * b);
    }
    const double rate = learning_rate(settings, step);
    const StepResult wanted =
        model.step(tokens.data(), targets.data(), {.adamw = {.rate = rate, .step = step}, .clip = 0.5});
    const TrainStep found = trainer.step();
    EXPECT_EQ(found.loss, wanted.loss) << step;
    EXPECT_EQ(found.gradient_norm, wanted.gradient_norm);
    EXPECT_EQ(found.rate, rate);
  }
  std::vector<float> values(model.values().size());
  trainer.model().read_state(State::values, values);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), model.values().begin()));
}

TEST(Trainer, RecomputesAsRequested) {
  const TokenFile data(kText, DataFormat::text, "--data");
  const auto shares_qkv = [&](Recompute recompute) {
    const Trainer trainer(small_settings(data), data, 1, recompute);
    const auto& blocks = trainer.model().plan().blocks;
    return blocks.at(0).qkv == blocks.at(1).qkv;
  };
  EXPECT_FALSE(shares_qkv(Recompute::none));
  EXPECT_TRUE(shares_qkv(Recompute::attention));
}

TEST(Trainer, ResumesBitForBit) {
  const TokenFile data(kText, DataFormat::text, "--data");
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    Settings settings = small_settings(data);
    settings.precision = precision;
    settings.steps = 9;
    expect_resumes_bit_for_bit(settings, data);
  }
}

TEST(Trainer, ValidationChangesNothing) {
  const TokenFile data(kText, DataFormat::text, "--data");
  const Settings settings = small_settings(data);
  Trainer plain(settings, data, 1), tested(settings, data, 1);
  plain.begin();
  tested.begin();
  double first = 0, last = 0;
  for (int i = 0; i < 30; ++i) {
    const double loss = tested.validate(data, 64).loss;
    if (i == 0) first = loss;
    last = loss;
    EXPECT_EQ(plain.step().loss, tested.step().loss);
  }
  EXPECT_LT(last, first - 1);
}

// Returns a given result for each step, without running a model.
class ScriptedBackend : public SingleBackend {
 public:
  ScriptedBackend(const Settings& settings, const StepResult& result)
      : SingleBackend(settings, BackendOptions{}), result_(result) {}
  StepResult step(const std::int32_t*, const std::int32_t*, const StepOptions&) override { return result_; }

 private:
  StepResult result_;
};

// The forward pass does not use the loss scale, so a lower scale cannot make a loss finite.
TEST(Trainer, Fp16StopsIfTheLossIsNotFinite) {
  const TokenFile data(kText, DataFormat::text, "--data");
  Settings settings = small_settings(data);
  settings.precision = Precision::fp16;
  const auto stepped = [&](double loss, double norm) {
    Trainer trainer(
        settings, data,
        std::make_unique<ScriptedBackend>(settings, StepResult{.loss = loss, .gradient_norm = norm, .skipped = true}));
    trainer.begin();
    return trainer.step();
  };
  EXPECT_TRUE(stepped(5, INFINITY).skipped) << "a gradient that overflows at a scale of 65536";
  for (const double loss : {NAN, INFINITY}) {
    try {
      stepped(loss, NAN);
      ADD_FAILURE() << loss;
    } catch (const DivergedError& error) {
      EXPECT_NE(std::string(error.what()).find("step 1: the loss is "), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("--precision bf16"), std::string::npos) << error.what();
    }
  }
}

TEST(Trainer, Fp16SkipsOverflowingSteps) {
  const TokenFile data(kText, DataFormat::text, "--data");
  Settings settings = small_settings(data);
  settings.precision = Precision::fp16;
  const test::Scratch scratch;
  const std::string path = (scratch.path() / "a").string();
  Trainer first(settings, data, 1);
  first.begin();
  const StateChunk read = [&](State which, std::int64_t from, std::span<float> out) {
    first.model().read_state(which, out, from);
  };
  write_checkpoint(path, read, settings, {.step = 0, .position = 0, .loss_scale = {.scale = 0x1p24}});
  Trainer trainer(settings, data, 1);
  trainer.resume(Checkpoint(path));
  TrainStep step;
  int skipped = 0;
  for (; skipped < 30 && (step = trainer.step()).skipped; ++skipped) {
  }
  EXPECT_GT(skipped, 0) << "gradients overflow at a scale of 2^24";
  EXPECT_LT(skipped, 24);
  EXPECT_EQ(trainer.progress().loss_scale.skipped, skipped);
  EXPECT_EQ(step.skipped_in_all, skipped);
  EXPECT_EQ(trainer.progress().loss_scale.scale, std::ldexp(1.0, 24 - skipped));
  EXPECT_TRUE(std::isfinite(step.gradient_norm));
  EXPECT_TRUE(std::isfinite(step.loss));
}

TEST(Trainer, StopsIfTheLossDiverges) {
  const TokenFile data(kText, DataFormat::text, "--data");
  Settings settings = small_settings(data);
  settings.rate = settings.least_rate = 1e6;
  settings.warmup = 0;
  settings.clip = 0;
  Trainer trainer(settings, data, 1);
  trainer.begin();
  try {
    while (!trainer.done()) trainer.step();
    FAIL() << "a learning rate of 1e6 did not diverge";
  } catch (const DivergedError& error) {
    EXPECT_EQ(error.code(), ErrorCode::runtime);
    EXPECT_NE(std::string(error.what()).find("the loss is "), std::string::npos) << error.what();
  }
}

// The loss of a step is that of the parameters before the step. The parameters after the last step need another check.
TEST(Trainer, ChecksTheParametersOfTheLastStep) {
  const TokenFile data(kText, DataFormat::text, "--data");
  Settings settings = small_settings(data);
  Trainer trainer(settings, data, 1), other(settings, data, 1);
  trainer.begin();
  other.begin();
  for (int i = 0; i < 3; ++i) {
    EXPECT_NO_THROW(trainer.check_last_step());
    EXPECT_EQ(trainer.step().loss, other.step().loss) << "check_last_step() must not change the next step";
  }
  settings.rate = settings.least_rate = 999999;
  settings.warmup = 0;
  settings.clip = 0;
  Trainer wild(settings, data, 1);
  wild.begin();
  bool is_found = false;
  for (int i = 0; i < 10 && !is_found; ++i) {
    try {
      wild.check_last_step();
    } catch (const DivergedError&) {
      is_found = true;
      EXPECT_THROW(wild.step(), DivergedError) << "the next step has the loss that was checked";
    }
    if (!is_found) wild.step();
  }
  EXPECT_TRUE(is_found);
}

// Backend of one of two ranks. agreed() appends its argument to `said`. `heard` is the other rank's argument.
class RankBackend : public SingleBackend {
 public:
  RankBackend(const Settings& settings, bool leads, int heard, std::vector<int>& said)
      : SingleBackend(settings, BackendOptions{}), leads_(leads), heard_(heard), said_(said) {}
  void read_state(State which, std::int64_t first, std::span<float> out) override {
    SingleBackend::read_state(which, first, out);
    if (leads_ && which == State::values && first == 0) out[0] = NAN;
  }
  bool leads() const override { return leads_; }
  int agreed(int own) override {
    said_.push_back(own);
    return own != 0 ? own : heard_;
  }

 private:
  bool leads_;
  int heard_;
  std::vector<int>& said_;
};

// Only rank 0 sees the values that a checkpoint would have, but all ranks end together.
TEST(Trainer, AStateThatIsNotFiniteStopsAllRanks) {
  const TokenFile data(kText, DataFormat::text, "--data");
  const Settings settings = small_settings(data);
  const test::Scratch scratch;
  std::vector<int> said;
  const auto saved = [&](bool leads, int heard) {
    Trainer trainer(settings, data, std::make_unique<RankBackend>(settings, leads, heard, said));
    trainer.begin();
    trainer.save((scratch.path() / "checkpoint").string());
  };
  EXPECT_THROW(saved(true, 0), DivergedError);
  EXPECT_THROW(saved(false, 1), DivergedError);
  EXPECT_NO_THROW(saved(false, 0));
  EXPECT_EQ(said, (std::vector<int>{1, 0, 0}));
  EXPECT_EQ(scratch.entries(), 0u);
}

TEST(Trainer, RejectsTf32OnACpuAndModelsThatDoNotFit) {
  const TokenFile data(kText, DataFormat::text, "--data");
  Settings settings = small_settings(data);
  settings.precision = Precision::tf32;
  EXPECT_THROW(Trainer(settings, data, 1), Error);
  settings = small_settings(data);
  settings.shape = shape_of("2.7B");
  settings.batch = 1 << 20;
  try {
    Trainer(settings, data, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
  }
}

TEST(TrainingBackend, RanksThatDoNotFitReportTheBytesOfEach) {
  constexpr std::size_t kState = 1'000'000'007;
  Settings settings;
  settings.shape = shape_of("xl");
  settings.precision = Precision::bf16;
  const DeviceMemory memory = device_memory({.one = {.shape = settings.shape,
                                                     .batch = 2,
                                                     .precision = settings.precision,
                                                     .gradients = GradientMemory::shared}},
                                            0);
  const std::size_t needed = memory.total() - memory.optimizer - memory.other + kState;
  try {
    training_model(settings, 2, {.processes = 1 << 16}, OptimizerMemory::outside, kState);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    const std::string text = error.what();
    EXPECT_NE(text.find("(" + std::to_string(needed) + " bytes)"), std::string::npos) << text;
    EXPECT_NE(text.find("for each of its 65536 ranks"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace strobe::lm
