// Libraries that are opened, not linked.
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

TEST(SharedLibrary, FirstThatOpensIsTaken) {
  const std::string files[] = {"", "/nowhere/libm.so.6", "libm.so.6", "libc.so.6"};
  const SharedLibrary library(files, "no mathematics");
  double (*root)(double) = nullptr;
  library.find("sqrt", root);  // which the last has not
  EXPECT_EQ(root(9), 3);
}

TEST(SharedLibrary, AMissingLibraryNamesReasonAndRemedy) {
  const std::string files[] = {"/nowhere/liba.so.1", "/nowhere/libb.so.1"};
  const std::string text = refusal_of([&] { SharedLibrary(files, "no mathematics; install some"); });
  EXPECT_TRUE(text.starts_with("no mathematics; install some: /nowhere/liba.so.1: ")) << text;
  EXPECT_NE(text.find("; /nowhere/libb.so.1: "), std::string::npos) << text;
}

TEST(SharedLibrary, MissingFunctionIsNamed) {
  const std::string files[] = {"libm.so.6"};
  const SharedLibrary library(files, "no mathematics");
  void (*function)() = nullptr;
  EXPECT_EQ(refusal_of([&] { library.find("no_such_function", function); }), "libm.so.6 has no no_such_function");
}

}  // namespace
}  // namespace strobe
