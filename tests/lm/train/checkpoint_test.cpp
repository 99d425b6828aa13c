// Tests checkpoints: round trips, and damaged or forged files.
#include "lm/train/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <vector>

#include "core/crc32.h"
#include "lm/train/checkpoint_folder.h"
#include "strobe/error.h"
#include "support/scratch.h"

namespace strobe::lm {
namespace {

Settings small_settings() {
  Settings settings;
  settings.shape = {.d_model = 8, .d_ff = 12, .layers = 2, .heads = 2, .vocabulary = 19, .context = 5};
  settings.batch = 3;
  settings.rate = 0.1;  // not a binary fraction: must round-trip exactly
  settings.seed = 123456789012345;
  settings.precision = Precision::bf16;
  settings.data = {DataFormat::tokens, 77, 0xfedcba98};
  return settings;
}

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() : model_(settings_.shape, 1, DType::fp32, {.threads = 1}) {
    model_.begin(settings_.seed);
    std::vector<float> state(model_.values().size());
    for (const State which : {State::mean, State::variance}) {
      for (std::size_t i = 0; i < state.size(); ++i) {
        state[i] = static_cast<float>(i) + (which == State::mean ? 0.25f : 0.75f);
      }
      model_.write_state(which, state);
    }
  }

  std::string path(const std::string& name = "a.safetensors") const { return (scratch_.path() / name).string(); }
  void write(const std::string& to) const {
    const StateChunk read = [&](State which, std::int64_t first, std::span<float> out) {
      model_.read_state(which, out, first);
    };
    write_checkpoint(to, read, settings_, progress_);
  }
  std::string bytes() const { return scratch_.read("a.safetensors"); }
  void put(const std::string& text) const { std::ofstream(path(), std::ios::binary) << text; }

  void expect_refusal(const std::string& part) const {
    try {
      const Checkpoint checkpoint(path());
      FAIL() << "not rejected: " << part;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_NE(text.find(part), std::string::npos) << text;
      EXPECT_NE(text.find(path()), std::string::npos) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos);
    }
  }

  // Writes a checkpoint in which the text `from` of the header is replaced by `to`, of the same length. The checksum of
  // the file no longer matches.
  void forge(const std::string& from, const std::string& to) const;
  // Writes a checkpoint with a changed header or state, and a checksum that matches.
  void forge_whole(
      const std::function<void(Json& settings, SafeTensors& layout, std::vector<float>& state)>& change) const;

  const test::Scratch scratch_;
  const Settings settings_ = small_settings();
  const Progress progress_{.step = 40, .position = 120, .loss_scale = {.scale = 1024, .fine_steps = 3, .skipped = 2}};
  Model model_;
};

// The state is larger than one chunk, and its size is not a multiple of a chunk's.
TEST(CheckpointChunks, CoverEveryElementOnceInOrder) {
  const ModelShape shape{.d_model = 256, .d_ff = 300, .layers = 3, .heads = 4, .vocabulary = 999, .context = 8};
  ASSERT_GT(parameter_count(shape), 1 << 20);
  std::vector<std::int64_t> next(3, 0);
  std::size_t most = 0;
  for_each_chunk(shape, [&](State which, std::int64_t first, std::span<float> chunk) {
    const auto at = static_cast<std::size_t>(which);
    EXPECT_EQ(first, next.at(at));
    EXPECT_TRUE(at == 0 || next[at - 1] == parameter_count(shape))
        << "a state must be complete before the next one starts";
    next[at] += static_cast<std::int64_t>(chunk.size());
    most = std::max(most, chunk.size());
  });
  EXPECT_EQ(next, std::vector<std::int64_t>(3, parameter_count(shape)));
  EXPECT_LE(most, std::size_t{1} << 20);
}

TEST_F(CheckpointTest, RoundTripsExactly) {
  write(path());
  const Checkpoint checkpoint(path());
  EXPECT_EQ(checkpoint.settings(), settings_);
  EXPECT_EQ(checkpoint.progress(), progress_);
  std::vector<float> state(model_.values().size());
  for (const State which : {State::values, State::mean, State::variance}) {
    model_.read_state(which, state);
    const std::span<const float> read = checkpoint.state(which);
    EXPECT_TRUE(std::equal(state.begin(), state.end(), read.begin(), read.end()));
  }
  EXPECT_EQ(scratch_.entries(), 1u);
  EXPECT_EQ(parse_safetensors(bytes(), "a").data_bytes(), checkpoint_bytes(settings_.shape));
}

TEST_F(CheckpointTest, BytesDependOnlyOnTheState) {
  write(path());
  write(path("b.safetensors"));
  EXPECT_EQ(bytes(), scratch_.read("b.safetensors"));
}

TEST_F(CheckpointTest, DetectsFlippedBitsAndTruncation) {
  write(path());
  const std::string whole = bytes();
  for (std::size_t i = 0; i < whole.size(); i += i < 400 ? 1 : 97) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ (1 << i % 8));
    put(changed);
    EXPECT_THROW(Checkpoint{path()}, Error) << "byte " << i;
  }
  for (std::size_t size = 0; size < whole.size(); size += 101) {
    put(whole.substr(0, size));
    EXPECT_THROW(Checkpoint{path()}, Error) << size << " bytes";
  }
  std::string changed = whole;
  changed[whole.size() - 100] ^= 1;
  put(changed);
  expect_refusal("is corrupt: its bytes have the checksum");
  put(whole + "x");
  expect_refusal("follow the header");
  put(whole);
  EXPECT_NO_THROW(Checkpoint{path()});
}

// A sampler reads the weights only, so it checks neither the moments nor the checksum of the whole file.
TEST_F(CheckpointTest, WeightsAreReadWithoutTheMoments) {
  write(path());
  const std::string whole = bytes();
  const std::size_t weights = parse_safetensors(whole, "a").data_begin + model_.values().size_bytes();
  const auto with_flipped = [&](std::size_t byte) {
    std::string changed = whole;
    changed[byte] = static_cast<char>(changed[byte] ^ 1);
    put(changed);
  };
  for (const std::size_t byte : {weights, whole.size() - 9, whole.size() - 1}) {
    with_flipped(byte);
    EXPECT_THROW(Checkpoint{path()}, Error) << byte;
    const Checkpoint checkpoint(path(), CheckpointParts::weights);
    const std::span<const float> read = checkpoint.state(State::values);
    EXPECT_TRUE(std::equal(read.begin(), read.end(), model_.values().begin(), model_.values().end()));
  }
  for (const std::size_t byte : {weights - 1, weights / 2, whole.size() - 5}) {
    with_flipped(byte);
    EXPECT_THROW(Checkpoint(path(), CheckpointParts::weights), Error) << byte;
  }
}

// Files of older versions have no weights_checksum; they are checked completely even if only the weights are read.
TEST_F(CheckpointTest, OlderVersionsAreRead) {
  forge_whole([](Json&, SafeTensors& layout, std::vector<float>& state) {
    state.pop_back();
    std::erase_if(layout.tensors, [](const StoredTensor& tensor) { return tensor.name == "weights_checksum"; });
    layout.tensors.back().begin -= 4;
    layout.tensors.back().end -= 4;
  });
  EXPECT_EQ(Checkpoint(path()).settings(), settings_);
  EXPECT_EQ(Checkpoint(path(), CheckpointParts::weights).settings(), settings_);
  std::string changed = bytes();
  changed[changed.size() - 5] ^= 1;  // byte of a second moment
  put(changed);
  EXPECT_THROW(Checkpoint(path(), CheckpointParts::weights), Error);
}

void CheckpointTest::forge(const std::string& from, const std::string& to) const {
  write(path());
  std::string text = bytes();
  const std::size_t position = text.find(from);
  ASSERT_NE(position, std::string::npos) << from;
  ASSERT_EQ(from.size(), to.size());
  put(text.replace(position, from.size(), to));
}

void CheckpointTest::forge_whole(
    const std::function<void(Json& settings, SafeTensors& layout, std::vector<float>& state)>& change) const {
  write(path());
  const std::string text = bytes();
  SafeTensors layout = parse_safetensors(text, "a");
  std::vector<float> state((layout.data_bytes() - 4) / sizeof(float));
  std::memcpy(state.data(), text.data() + layout.data_begin, state.size() * sizeof(float));
  const auto entry = std::find_if(layout.metadata.begin(), layout.metadata.end(),
                                  [](const auto& one) { return one.first == "settings"; });
  Json settings = Json::parse(entry->second);
  change(settings, layout, state);
  entry->second = settings.dump();
  std::string forged = header_of(layout);
  forged.append(reinterpret_cast<const char*>(state.data()), state.size() * sizeof(float));
  const std::uint32_t checksum = crc32(forged);
  put(forged.append(reinterpret_cast<const char*>(&checksum), sizeof(checksum)));
}

// A changed file may have a matching checksum. A value out of range is then an error that names the field.
TEST_F(CheckpointTest, RejectsForgedValuesWithAMatchingChecksum) {
  const auto keep = [](Json&, SafeTensors&, std::vector<float>&) {};
  forge_whole(keep);
  EXPECT_NO_THROW(Checkpoint{path()});
  const auto metadata = [](const char* key, const char* value) {
    return [=](Json&, SafeTensors& layout, std::vector<float>&) {
      for (auto& [name, kept] : layout.metadata) kept = name == key ? value : kept;
    };
  };
  forge_whole([](Json& settings, SafeTensors&, std::vector<float>&) { settings.set("batch", std::int64_t{1} << 62); });
  expect_refusal("batch 4611686018427387904: valid: 1 to 100000000");
  forge_whole([](Json& settings, SafeTensors&, std::vector<float>&) { settings.set("lr", -1e308); });
  expect_refusal("lr -1e+308: valid: at least 0, below 1000000");
  forge_whole(metadata("data_position", "9223372036854775807"));
  expect_refusal("data_position 9223372036854775807: valid: 120, which is step 40 times batch 3");
  forge_whole(metadata("loss_scale", R"({"scale":1024,"fine_steps":3,"skipped":-9223372036854775808})"));
  expect_refusal("skipped -9223372036854775808: valid: 0 to 40");
  forge_whole(metadata("loss_scale", R"({"scale":1024,"fine_steps":9223372036854775807,"skipped":0})"));
  expect_refusal("fine_steps 9223372036854775807: valid: 0 to 1999");
}

TEST_F(CheckpointTest, RejectsStatesThatCannotBeTrained) {
  const std::size_t count = model_.values().size();
  const auto set = [](std::size_t index, float value) {
    return [=](Json&, SafeTensors&, std::vector<float>& state) { state.at(index) = value; };
  };
  forge_whole(set(0, NAN));
  expect_refusal("embedding.weight: element 0 is nan; valid: finite");
  forge_whole(set(count + 9, INFINITY));
  expect_refusal("adamw.mean.embedding.weight: element 9 is inf; valid: finite");
  forge_whole(set(3 * count - 1, -1e-30f));
  expect_refusal("adamw.variance.unembedding.weight: element 151 is -1e-30; valid: finite, 0 or more");
  forge_whole(set(3 * count - 1, -0.0f));
  EXPECT_NO_THROW(Checkpoint{path()});
}

TEST_F(CheckpointTest, IsNotWrittenIfAValueIsNotFinite) {
  std::vector<float> values(model_.values().begin(), model_.values().end());
  values[5] = INFINITY;
  model_.write_state(State::values, values);
  EXPECT_THROW(write(path()), DivergedError);
  EXPECT_EQ(scratch_.entries(), 0u) << "not even a temporary file";
}

TEST_F(CheckpointTest, RejectsForeignAndForgedHeaders) {
  forge("strobe lm checkpoint 1", "strobe lm checkpoint 2");
  expect_refusal("is not a checkpoint of strobe lm train");
  forge("layers.1.attention.q", "layers.1.attention.p");
  expect_refusal("where layers.1.attention.q.weight, F32 [8, 8] belongs");
  forge("\\\"heads\\\":2", "\\\"heads\\\":3");
  expect_refusal("3 heads do not divide d_model 8");
  forge("\\\"layers\\\":2", "\\\"layers\\\":1");
  expect_refusal("bytes; its shape needs");
  forge("\"step\":\"40\"", "\"step\":\"4x\"");
  expect_refusal("its metadata's step is 4x");
  forge("\\\"lr_min\\\"", "\\\"lr_mim\\\"");
  expect_refusal("no key \"lr_min\"");
}

TEST_F(CheckpointTest, StoresItsArchitectureAndIsNotReadAsAnother) {
  forge("\\\"arch\\\":\\\"llama\\\"", "\\\"arch\\\":\\\"bert1\\\"");
  expect_refusal("arch bert1: valid: llama, gpt2");
  forge("\\\"arch\\\":\\\"llama\\\"", "\\\"arch\\\":\\\"gpt2\\\" ");
  expect_refusal("bytes; its shape needs");
  forge("\\\"arch\\\"", "\\\"arcx\\\"");
  expect_refusal("is corrupt: its bytes have the checksum");  // without "arch" it is a valid llama header

  Settings settings = settings_;
  settings.shape.architecture = Architecture::gpt2;
  Model model(settings.shape, 1, DType::fp32, {.threads = 1});
  model.begin(1);
  write_checkpoint(
      path(), [&](State which, std::int64_t first, std::span<float> out) { model.read_state(which, out, first); },
      settings, progress_);
  const Checkpoint checkpoint(path());
  EXPECT_EQ(checkpoint.settings(), settings);
  const std::span<const float> values = checkpoint.state(State::values);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), model.values().begin(), model.values().end()));
}

TEST_F(CheckpointTest, AnEmptyFolderIsRemovedAgain) {
  for (const char* name : {"run", "a/b/c", "a/b/"}) {
    { const CheckpointFolder folder(path(name), CheckpointFolder::Use::fresh); }
    EXPECT_EQ(scratch_.entries(), 0u) << name;
  }
  std::filesystem::create_directory(path("mine"));
  { const CheckpointFolder folder(path("mine"), CheckpointFolder::Use::fresh); }
  EXPECT_TRUE(std::filesystem::exists(path("mine")));
  {
    const CheckpointFolder folder(path("mine/run"), CheckpointFolder::Use::fresh);
    std::ofstream(folder.step_log()) << "{}";
  }
  EXPECT_TRUE(std::filesystem::exists(path("mine/run/steps.jsonl")));
}

TEST_F(CheckpointTest, AFolderWithOtherFilesIsNoRun) {
  std::filesystem::create_directory(path("full"));
  const auto resume = [&] { const CheckpointFolder folder(path("full"), CheckpointFolder::Use::resume); };
  EXPECT_NO_THROW(resume()) << "empty";
  std::ofstream(path("full/letter")) << "x";
  EXPECT_THROW(resume(), Error);
  std::ofstream(path("full/steps.jsonl")) << "";
  EXPECT_NO_THROW(resume()) << "as after a kill before the first checkpoint";
  std::filesystem::rename(path("full/steps.jsonl"), path("full/run.json"));
  EXPECT_NO_THROW(resume()) << "as after a kill before the first step";
  std::filesystem::rename(path("full/run.json"), path("full/run.json.strobe-tmp-a1B2c3"));
  EXPECT_THROW(resume(), Error) << "as after a kill before the run began";
  EXPECT_FALSE(std::filesystem::exists(path("full/run.json.strobe-tmp-a1B2c3")));
}

std::string report_step(std::int64_t step) { return "--resume=" + std::to_string(step) + " does"; }

TEST_F(CheckpointTest, RenamesLaterCheckpointsAndLosesNone) {
  const std::string folder = path("run");
  const CheckpointFolder run(folder, CheckpointFolder::Use::fresh);
  for (const std::int64_t step : {10, 20, 30}) write(run.file(step));
  EXPECT_EQ(run.set_aside_after(10), (std::vector<std::int64_t>{20, 30}));
  EXPECT_EQ(checkpoint_steps(folder), (std::vector<std::int64_t>{10}));
  write(run.file(30));
  EXPECT_EQ(run.set_aside_after(10), (std::vector<std::int64_t>{30}));
  for (const char* name : {"step-00000020.safetensors.abandoned", "step-00000030.safetensors.abandoned",
                           "step-00000030.safetensors.abandoned.2"}) {
    EXPECT_TRUE(std::filesystem::exists(folder + "/" + name)) << name;
  }
  EXPECT_TRUE(run.set_aside_after(10).empty());
  EXPECT_THROW(open_checkpoint(folder, 30, CheckpointParts::all, report_step), Error);
}

TEST_F(CheckpointTest, AFolderListsItsCheckpointsAndKeepsTheNewest) {
  const std::string folder = path("run");
  {
    CheckpointFolder run(folder, CheckpointFolder::Use::fresh);
    EXPECT_EQ(run.file(40), folder + "/step-00000040.safetensors");
    for (const std::int64_t step : {7, 40, 123456789, 50}) write(run.file(step));
    std::ofstream(folder + "/step-00000060.safetensors.strobe-tmp-aB3dEf") << "left by a kill";
    std::ofstream(folder + "/step-x.safetensors") << "a stranger's";
    EXPECT_EQ(checkpoint_steps(folder), (std::vector<std::int64_t>{7, 40, 50, 123456789}));
    run.keep_newest(2, 50);  // later checkpoints are not removed
    EXPECT_EQ(checkpoint_steps(folder), (std::vector<std::int64_t>{40, 50, 123456789}));
    EXPECT_THROW(CheckpointFolder(folder, CheckpointFolder::Use::resume), Error) << "the folder is locked";
  }
  EXPECT_THROW(CheckpointFolder(folder, CheckpointFolder::Use::fresh), Error) << "the folder is not empty";
  const CheckpointFolder again(folder, CheckpointFolder::Use::resume);
  EXPECT_FALSE(std::filesystem::exists(folder + "/step-00000060.safetensors.strobe-tmp-aB3dEf"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/step-x.safetensors"));
  EXPECT_THROW(CheckpointFolder(path("missing"), CheckpointFolder::Use::resume), Error);
}

TEST_F(CheckpointTest, ACorruptCheckpointIsNamedWithThePreviousIntactOne) {
  const std::string folder = path("run");
  const CheckpointFolder run(folder, CheckpointFolder::Use::fresh);
  EXPECT_EQ(open_checkpoint(folder, kNewest, CheckpointParts::all, report_step), nullptr);
  for (const std::int64_t step : {10, 20, 30}) write(run.file(step));
  EXPECT_NE(open_checkpoint(folder, kNewest, CheckpointParts::all, report_step), nullptr);
  for (const std::int64_t step : {20, 30}) std::filesystem::resize_file(run.file(step), 1000);
  try {
    open_checkpoint(folder, kNewest, CheckpointParts::all, report_step);
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("step-00000030.safetensors"), std::string::npos) << text;
    EXPECT_NE(text.find("the newest intact one before it is that of step 10: --resume=10 does"), std::string::npos)
        << text;
  }
  EXPECT_NE(open_checkpoint(folder, 10, CheckpointParts::all, report_step), nullptr);
}

}  // namespace
}  // namespace strobe::lm
