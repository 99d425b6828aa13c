// Tests that settings and progress from files are rejected if they are outside the ranges of the command line.
#include "lm/train/settings.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "lm/train/progress.h"
#include "strobe/error.h"
#include "support/corpus.h"
#include "support/fuzz_settings.h"

namespace strobe::lm {
namespace {

Settings tiny_settings() {
  Settings settings;
  settings.shape = shape_of("tiny");
  return settings;
}

template <class Read>
void expect_refusal(Read read, const std::string& part) {
  try {
    read();
    ADD_FAILURE() << "not rejected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

Json with(Json json, const char* key, const Json& value) { return json.set(key, value); }

struct Forged {
  const char* key;
  Json value;
  const char* part;
};

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max(),
                       kLeast = std::numeric_limits<std::int64_t>::min();

TEST(Settings, FromAFileEqualThoseWritten) { EXPECT_EQ(settings_from(to_json(tiny_settings())), tiny_settings()); }

TEST(Settings, FromAFileMustBeInTheRangesOfTheFlags) {
  const Json whole = to_json(tiny_settings());
  const Forged all[] = {{"batch", std::int64_t{1} << 62, "batch 4611686018427387904: valid: 1 to 100000000"},
                        {"batch", 0, "batch 0: valid: 1 to"},
                        {"steps", kMost, "steps 9223372036854775807: valid: 1 to 100000000"},
                        {"seed", -1, "seed -1: valid: 0 to"},
                        {"lr", -1e308, "lr -1e+308: valid: at least 0, below 1000000"},
                        {"lr_min", -1.0, "lr_min -1: valid: at least 0"},
                        {"lr_min", 0.5, "lr_min 0.5: above lr, 0.001; valid: 0 to 0.001"},
                        {"lr_warmup", 1001, "lr_warmup 1001: more than the 1000 steps; valid: 0 to 1000"},
                        {"lr_warmup", kMost, "lr_warmup 9223372036854775807: valid: 0 to"},
                        {"beta1", 1e308, "beta1 1e+308: valid: at least 0, below 1"},
                        {"beta2", 1.0, "beta2 1: valid: at least 0, below 1"},
                        {"eps", -1.0, "eps -1: valid: at least 1e-37, below 1"},
                        {"eps", 0.0, "eps 0: valid: at least 1e-37, below 1"},
                        {"eps", 1e-320, "eps 1e-320: valid: at least 1e-37, below 1"},
                        {"decay", -0.5, "decay -0.5: valid: at least 0"},
                        {"clip", 1e300, "clip 1e+300: valid: at least 0, below 1e+30"},
                        {"d_model", kMost, "d_model 9223372036854775807; valid: 1 to"},
                        {"layers", kLeast, "layers -9223372036854775808; valid: 1 to"},
                        {"heads", 0, "heads 0; valid: 1 to"},
                        {"context", kMost, "context 9223372036854775807; valid: 1 to"},
                        {"vocabulary", kMost, "vocabulary 9223372036854775807; valid: 1 to"},
                        {"data_tokens", kLeast, "data_tokens -9223372036854775808: valid: 0 to"},
                        {"data_crc32", std::int64_t{1} << 32, "data_crc32 4294967296: valid: 0 to 4294967295"},
                        {"data_format", "words", "data_format words: valid: text, tokens"},
                        {"device", "tpu", "device tpu: valid: cpu, cuda"}};
  for (const Forged& one : all) {
    SCOPED_TRACE(one.key);
    expect_refusal([&] { settings_from(with(whole, one.key, one.value)); }, one.part);
  }
}

TEST(Settings, FromFlagsAreNamedAsFlags) {
  Settings settings = tiny_settings();
  settings.least_rate = 1;
  expect_refusal([&] { check(settings, Source::flag); }, "--lr-min 1: above --lr, 0.001; valid: 0 to 0.001");
}

TEST(Progress, FromAFileMustBeReachable) {
  const Settings settings = tiny_settings();
  const Progress progress{.step = 10, .position = 80, .loss_scale = {.scale = 4096, .fine_steps = 7, .skipped = 3}};
  const Json whole = to_json(progress);
  EXPECT_EQ(progress_from(whole, settings), progress);
  for (const Forged& one :
       {Forged{"data_position", kMost, "data_position 9223372036854775807: valid: 80, which is"},
        Forged{"step", 1001, "step 1001: valid: 0 to 1000"}, Forged{"step", -1, "step -1: valid: 0 to 1000"}}) {
    SCOPED_TRACE(one.key);
    expect_refusal([&] { progress_from(with(whole, one.key, one.value), settings); }, one.part);
  }
  for (const Forged& one : {Forged{"skipped", kLeast, "skipped -9223372036854775808: valid: 0 to 10"},
                            Forged{"skipped", 11, "skipped 11: valid: 0 to 10"},
                            Forged{"fine_steps", kMost, "fine_steps 9223372036854775807: valid: 0 to 1999"},
                            Forged{"scale", 0.0, "loss scale 0: valid: 1 to 16777216"},
                            Forged{"scale", 1e300, "loss scale 1e+300: valid: 1 to 16777216"}}) {
    SCOPED_TRACE(one.key);
    const Json scale = with(whole.at("loss_scale"), one.key, one.value);
    expect_refusal([&] { progress_from(with(whole, "loss_scale", scale), settings); }, one.part);
  }
}

TEST(SettingsFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"gpt2", "llama", "no_arch"};
  EXPECT_EQ(test::accepted_seeds("settings", test::fuzz_settings), valid);
}

TEST(SettingsFuzz, MutationsAreRejectedOrValid) {
  EXPECT_GT(test::accepted_json_mutations("settings", 2000, test::fuzz_settings), 20);
}

}  // namespace
}  // namespace strobe::lm
