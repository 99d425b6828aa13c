// lm/safetensors: limits of the header and the text in it.
#include "lm/data/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/json.h"
#include "strobe/error.h"

namespace strobe::lm {
namespace {

std::string file_of(std::uint64_t length, const std::string& header) {
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header;
}

std::string refusal(const std::string& file) {
  try {
    parse_safetensors(file, "f");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(SafeTensors, RefusesAHeaderAboveTheLimitOfADocument) {
  EXPECT_EQ(refusal(file_of(Json::kMostBytes + 1, "{")), "f: its header has 67108865 bytes; valid: up to 67108864");
  EXPECT_EQ(refusal(file_of(100'000'001, "{")),
            "f: is no safetensors file: it does not begin with the length of a header");
}

TEST(SafeTensors, RefusesNamesThatAreNotUtf8) {
  const std::string fine = R"({"__metadata__":{"é":"x"}})", bad = "{\"__metadata__\":{\"\xe9\":\"x\"}}";
  EXPECT_EQ(refusal(file_of(fine.size(), fine)), "");
  EXPECT_EQ(refusal(file_of(bad.size(), bad)), "f: its header: json: a byte that is not UTF-8 at byte 18 of 26");
}

}  // namespace
}  // namespace strobe::lm
