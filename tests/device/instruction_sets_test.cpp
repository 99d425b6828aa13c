// Tests the list of this machine's instruction sets, and STROBE_CPU_ISA.
#include "device/host/instruction_sets.h"

#include <gtest/gtest.h>

#include "support/isa_scope.h"

namespace strobe {
namespace {

TEST(InstructionSets, StartWithThePlainArchitecture) {
  ASSERT_FALSE(instruction_sets().empty());
  EXPECT_STREQ(instruction_sets()[0].name, "generic");
  EXPECT_TRUE(instruction_sets()[0].available);
}

TEST(InstructionSets, AnErrorListsTheInstructionSets) {
  EXPECT_EQ(instruction_set_refusal(""), "");
  for (const InstructionSet& one : instruction_sets()) {
    EXPECT_EQ(instruction_set_refusal(one.name).empty(), one.available) << one.name;
  }
  const std::string refusal = instruction_set_refusal("mmx");
  EXPECT_NE(refusal.find("'mmx'"), std::string::npos) << refusal;
  for (const std::string& name : test::available_isas()) EXPECT_NE(refusal.find(name), std::string::npos) << refusal;
}

TEST(InstructionSets, AreForcedByAVariable) {
  const test::IsaScope scope("generic");
  EXPECT_STREQ(forced_instruction_set(), "generic");
}

}  // namespace
}  // namespace strobe
