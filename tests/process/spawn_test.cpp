// Tests process/spawn: descriptors, folder and environment of a child, and programs that cannot be executed.
#include "process/spawn.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <tuple>

#include "strobe/error.h"
#include "support/scratch.h"

namespace strobe {
namespace {

std::string contents(int descriptor) {
  std::string text;
  char block[256];
  for (ssize_t got; (got = read(descriptor, block, sizeof(block))) > 0;)
    text.append(block, static_cast<std::size_t>(got));
  return text;
}

// Returns the output of a shell script.
std::string output_of(const std::string& script, SpawnOptions options = {}) {
  Pipe output;
  options.output = output.write.get();
  const pid_t child = spawn({"sh", "-c", script}, options);
  output.write.reset();
  const std::string text = contents(output.read.get());
  EXPECT_EQ(wait_for(child), 0) << script;
  return text;
}

TEST(Spawn, DescriptorsGetTheirNumbers) {
  Pipe three, four;
  const int ends[] = {three.read.get(), four.read.get()};
  const std::string script = "read -r a <&3; read -r b <&4; echo $a $b";
  for (const auto& [first, second, printed] : {std::tuple(0, 1, "three four\n"), std::tuple(1, 0, "four three\n")}) {
    ASSERT_EQ(write(three.write.get(), "three\n", 6), 6);
    ASSERT_EQ(write(four.write.get(), "four\n", 5), 5);
    EXPECT_EQ(output_of(script, {.descriptors = {ends[first], ends[second]}}), printed);
  }
}

TEST(Spawn, OtherDescriptorsAreClosedOrInherited) {
  const test::Scratch scratch;
  const int number = dup(STDERR_FILENO);  // not close-on-exec
  const std::string script = "[ -e /proc/self/fd/" + std::to_string(number) + " ] && echo open || echo closed";
  EXPECT_EQ(output_of(script), "closed\n");
  EXPECT_EQ(output_of(script, {.others = SpawnOptions::Others::inherited}), "open\n");
  close(number);
}

TEST(Spawn, BeforeExecAndFolderApplyToTheChild) {
  const test::Scratch scratch;
  const auto before = [] { setenv("STROBE_SPAWN_TEST", "here", 1); };
  EXPECT_EQ(output_of("echo $STROBE_SPAWN_TEST $PWD", {.folder = scratch.path().string(), .before_exec = before}),
            "here " + scratch.path().string() + "\n");
  EXPECT_EQ(getenv("STROBE_SPAWN_TEST"), nullptr);
}

TEST(Spawn, OwnGroupExistsAtOnce) {
  const pid_t child = spawn({"sleep", "100"}, {});
  EXPECT_EQ(getpgid(child), child);
  kill(-child, SIGTERM);
  EXPECT_EQ(exit_code_of(wait_for(child)), 128 + SIGTERM);
  const pid_t other = spawn({"sleep", "100"}, {.own_group = false});
  EXPECT_EQ(getpgid(other), getpgrp());
  kill(other, SIGTERM);
  wait_for(other);
}

TEST(Spawn, ProgramsThatCannotBeExecutedAreErrors) {
  const test::Scratch scratch;
  for (const std::string& program : {std::string("/nonexistent"), scratch.path().string()}) {
    try {
      spawn({program}, {});
      ADD_FAILURE() << program;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(error.what()).find("cannot start " + program + ": "), std::string::npos) << error.what();
    }
  }
  EXPECT_THROW(spawn({"true"}, {.folder = "/nonexistent"}), Error);
}

}  // namespace
}  // namespace strobe
