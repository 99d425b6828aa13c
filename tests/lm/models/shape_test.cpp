// Tests the model sizes by name, and their parameter counts.
#include "lm/models/shape.h"

#include <gtest/gtest.h>

#include "lm/models/architecture.h"
#include "strobe/error.h"

namespace strobe::lm {
namespace {

TEST(ModelShape, FiveSizesHaveTheirParameterCounts) {
  const struct {
    const char* name;
    std::int64_t parameters;
  } table[] = {{"small", 128'625'408},
               {"medium", 423'183'360},
               {"large", 969'411'840},
               {"xl", 1'998'235'200},
               {"2.7B", 3'406'809'600}};
  for (const auto& [name, parameters] : table) {
    EXPECT_EQ(parameter_count(shape_of(name)), parameters) << name;
    EXPECT_NO_THROW(check(shape_of(name))) << name;
  }
  EXPECT_EQ(shape_of("2.7B").head_dim(), 80);
  EXPECT_EQ(size_names().size(), 7u);
}

// The count follows from untied embeddings and an unembedding without bias.
TEST(ModelShape, Gpt2HasItsParameterCount) {
  const ModelShape shape = shape_of("ddp-small");
  EXPECT_EQ(shape.architecture, Architecture::gpt2);
  EXPECT_EQ(parameter_count(shape), 70'859'776);
  const std::int64_t norm = 2 * 512, attention = 4 * (512 * 512 + 512),
                     feed_forward = 512 * 2048 + 2048 + 2048 * 512 + 512;
  EXPECT_EQ(parameter_count(shape), 2 * 32'000 * 512 + 512 * 512 + 12 * (attention + feed_forward + 2 * norm) + norm);
  for (const std::string& name : size_names()) {
    EXPECT_EQ(shape_of(name).architecture == Architecture::gpt2, name == "ddp-small") << name;
  }
}

std::string refusal(const ModelShape& shape) {
  try {
    check(shape);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(ModelShape, BadShapesAreRejected) {
  EXPECT_THROW(shape_of("huge"), Error);
  const ModelShape tiny = shape_of("tiny");
  EXPECT_EQ(refusal(tiny), "");
  ModelShape shape = tiny;
  shape.layers = 0;
  EXPECT_EQ(refusal(shape), "lm: layers 0; valid: 1 to 100000");
  shape = tiny;
  shape.d_model = std::int64_t{1} << 40;
  EXPECT_EQ(refusal(shape), "lm: d_model 1099511627776; valid: 1 to 1048576");
  shape = tiny;
  shape.heads = 3;
  EXPECT_EQ(refusal(shape), "lm: 3 heads do not divide d_model 128");
  shape = tiny;
  shape.d_model = 12;
  EXPECT_EQ(refusal(shape), "lm: d_model 12 over 4 heads is a head dimension of 3; valid: even, up to 256");
  shape.d_model = 4096;
  EXPECT_EQ(refusal(shape), "lm: d_model 4096 over 4 heads is a head dimension of 1024; valid: even, up to 256");
  shape.architecture = Architecture::gpt2;
  EXPECT_EQ(refusal(shape), "lm: d_model 4096 over 4 heads is a head dimension of 1024; valid: up to 256");
  shape.d_model = 12;
  EXPECT_EQ(refusal(shape), "") << "without RoPE the head dimension may be odd";
}

TEST(Architecture, NamesRoundTrip) {
  EXPECT_EQ(architecture_names(), (std::vector<std::string>{"llama", "gpt2"}));
  for (const std::string& name : architecture_names()) EXPECT_EQ(name_of(architecture_of(name)), name);
  try {
    architecture_of("bert");
    ADD_FAILURE() << "not rejected";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "arch bert: valid: llama, gpt2");
  }
}

}  // namespace
}  // namespace strobe::lm
