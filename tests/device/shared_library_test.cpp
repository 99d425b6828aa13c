// Tests device/shared_library, which opens libraries on first use: the files it tries, and errors that name the remedy.
#include "device/shared_library.h"

#include <gtest/gtest.h>

#include "strobe/error.h"

namespace strobe {
namespace {

template <class Body>
std::string refusal_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    return error.what();
  }
  return "";
}

TEST(SharedLibrary, TheFirstThatOpensIsUsed) {
  const SharedLibrary library(
      {.files = {"", "/nowhere/libm.so.6", "libm.so.6", "libc.so.6"}, .advice = "no mathematics"});
  double (*const root)(double) = library.function("sqrt");  // libc.so.6 does not have it
  EXPECT_EQ(root(9), 3);
}

TEST(SharedLibrary, AMissingLibraryNamesReasonAndRemedy) {
  const LibraryFiles none{.files = {"/nowhere/liba.so.1", "/nowhere/libb.so.1"},
                          .advice = "no mathematics; install some"};
  const std::string text = refusal_of([&] { SharedLibrary{none}; });
  EXPECT_TRUE(text.starts_with("no mathematics; install some: /nowhere/liba.so.1: ")) << text;
  EXPECT_NE(text.find("; /nowhere/libb.so.1: "), std::string::npos) << text;
}

TEST(SharedLibrary, AVariableReplacesTheFiles) {
  const LibraryFiles named{.files = {"libm.so.6"}, .advice = "no mathematics", .variable = "STROBE_TEST_LIBRARY"};
  setenv("STROBE_TEST_LIBRARY", "/nowhere/libc.so.1", 1);
  EXPECT_TRUE(refusal_of([&] { SharedLibrary{named}; }).starts_with("no mathematics: /nowhere/libc.so.1: "));
  setenv("STROBE_TEST_LIBRARY", "", 1);
  EXPECT_NO_THROW(SharedLibrary{named});
  unsetenv("STROBE_TEST_LIBRARY");
}

TEST(SharedLibrary, MissingFunctionIsNamed) {
  const SharedLibrary library({.files = {"libm.so.6"}, .advice = "no mathematics"});
  EXPECT_EQ(refusal_of([&] { library.function("no_such_function"); }),
            "libm.so.6 does not have the function no_such_function");
}

struct Mathematics : SharedLibrary {
  Mathematics() : SharedLibrary({.files = {"libm.so.6"}, .advice = "no mathematics"}) {}
  double (*root)(double) = function("sqrt");
};

TEST(SharedLibrary, IsOpenedOncePerType) {
  EXPECT_EQ(opened<Mathematics>().root(16), 4);
  EXPECT_EQ(&opened<Mathematics>(), &opened<Mathematics>());
}

}  // namespace
}  // namespace strobe
