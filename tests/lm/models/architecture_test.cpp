#include "lm/models/architecture.h"

#include <gtest/gtest.h>

#include "strobe/error.h"

namespace strobe::lm {
namespace {

TEST(Architecture, NamesAreThoseOfTheNetworks) {
  EXPECT_EQ(architecture_names(), (std::vector<std::string>{"llama", "gpt2"}));
  for (const std::string& name : architecture_names()) EXPECT_EQ(name_of(architecture_of(name)), name);
  try {
    architecture_of("bert");
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "arch bert: valid: llama, gpt2");
  }
}

}  // namespace
}  // namespace strobe::lm
