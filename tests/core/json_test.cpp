// Tests core/json: the strict parser accepts what the writer produces, and rejects invalid text with its position.
#include "core/json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "strobe/error.h"
#include "support/corpus.h"
#include "support/fuzz_json.h"

namespace strobe {
namespace {

TEST(Json, WritesCompactAndIndented) {
  const Json json = Json::object(
      {{"time(s)", 0.25}, {"n", 3}, {"ok", true}, {"none", nullptr}, {"list", Json::array({1, 2.5, "x"})}});
  EXPECT_EQ(json.dump(), R"json({"time(s)":0.25,"n":3,"ok":true,"none":null,"list":[1,2.5,"x"]})json");
  EXPECT_EQ(Json::parse(json.dump(2)).dump(), json.dump());
}

TEST(Json, KeepsTheOrderOfKeysAndReplacesInPlace) {
  Json json = Json::object({{"b", 1}, {"a", 2}});
  json.set("b", 3).set("c", 4);
  EXPECT_EQ(json.dump(), R"({"b":3,"a":2,"c":4})");
}

TEST(Json, NumbersSurviveTheRoundTrip) {
  for (const double value : {0.1, 1e-300, -1.7976931348623157e308, 3.0, 5e-324, 1.0 / 3}) {
    EXPECT_EQ(Json::parse(Json(value).dump()).as_number(), value);
  }
  EXPECT_EQ(Json::parse("9223372036854775807").as_integer(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(Json::parse("1e3").as_number(), 1000);
}

TEST(Json, SeveralValuesAreParsedInSequence) {
  const std::string text = "{\"a\": 1}\n[2]\n\n 3 {\"b\" 4}";
  std::size_t position = 0;
  EXPECT_EQ(Json::parse_next(text, position).dump(), R"({"a":1})");
  EXPECT_EQ(Json::parse_next(text, position).dump(), "[2]");
  EXPECT_EQ(Json::parse_next(text, position).as_integer(), 3);
  EXPECT_THROW(Json::parse_next(text, position), Error);
  EXPECT_EQ(text.substr(position), "4}");
}

TEST(Json, NonFiniteNumbersAreNull) {
  EXPECT_EQ(Json(std::nan("")).dump(), "null");
  EXPECT_EQ(Json(-std::numeric_limits<double>::infinity()).dump(), "null");
}

TEST(Json, EscapesAndUnescapes) {
  const std::string text = "quote \" back \\ line \n tab \t bell \x07 é";
  EXPECT_EQ(Json::parse(Json(text).dump()).as_string(), text);
  EXPECT_EQ(Json::parse(R"("\u00e9\ud83d\ude00\/")").as_string(), "é😀/");
}

TEST(Json, BytesThatAreNotUtf8BecomeTheReplacementCharacter) {
  const struct {
    const char* bytes;
    const char* read;
  } table[] = {{"a\xff"
                "b",
                "a\ufffdb"},
               {"\xc3", "\ufffd"},                                // truncated sequence
               {"\xc0\xaf", "\ufffd\ufffd"},                      // overlong
               {"\xe0\x9f\xbf", "\ufffd\ufffd\ufffd"},            // overlong
               {"\xed\xa0\x80", "\ufffd\ufffd\ufffd"},            // a surrogate
               {"\xf4\x90\x80\x80", "\ufffd\ufffd\ufffd\ufffd"},  // beyond U+10FFFF
               {"\xe2\x82"
                "x",
                "\ufffd\ufffdx"},
               {"é€😀\xf4\x8f\xbf\xbf\xed\x9f\xbf", "é€😀\U0010ffff\ud7ff"}};
  for (const auto& row : table) EXPECT_EQ(Json::parse(Json(row.bytes).dump()).as_string(), row.read) << row.read;
  EXPECT_EQ(Json("\x80").dump(), "\"\\ufffd\"");
}

TEST(Json, RejectsBadTextWithItsPosition) {
  for (const char* text :
       {"",      "{",       "[1,]",        "{\"a\":1,}", "{a:1}", "01",    "1.",        ".5", "+1", "tru",
        "\"abc", "\"\\x\"", "\"\\ud800\"", "1 2",        "nan",   "[1 2]", "{\"a\" 1}", "-",  "1e", "\"\n\""}) {
    EXPECT_THROW(Json::parse(text), Error) << text;
  }
  try {
    Json::parse("[1, x]");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_STREQ(error.what(), "json: not a number at byte 4 of 6");
  }
}

TEST(Json, RejectsAKeyThatAnObjectHasTwice) {
  for (const char* text :
       {R"({"a": 1, "b": 2, "a": 3})", R"([{"b": {}, "c": {"a": 1, "a": 1}}])", R"({"": 1, "": 1})"}) {
    EXPECT_THROW(Json::parse(text), Error) << text;
  }
  EXPECT_EQ(Json::parse(R"({"a": {"a": 1}, "b": {"a": 2}})").at("b").at("a").as_integer(), 2);
  try {
    Json::parse(R"({"rows": [], "n": 1, "rows": 64})");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "json: key rows twice in the object that ends at byte 32 of 32");
  }
}

TEST(Json, RejectsBytesThatAreNotUtf8) {
  const struct {
    const char* bytes;
    std::size_t fault;
  } table[] = {{"\"a\xff\"", 2},          {"\"\xc3\"", 1},         {"\"\xc0\xaf\"", 1},
               {"\"\xe0\x9f\xbf\"", 1},   {"\"\xed\xa0\x80\"", 1}, {"\"\xf4\x90\x80\x80\"", 1},
               {"{\"\xe2\x82x\": 1}", 2}, {"\"abc\x80", 4}};
  for (const auto& row : table) {
    try {
      Json::parse(row.bytes);
      ADD_FAILURE() << row.bytes;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(fmt::format("not UTF-8 at byte {} of", row.fault)), std::string::npos)
          << error.what();
    }
  }
}

// A value is unchanged by parsing, writing and parsing again.
TEST(Json, RoundTripKeepsValues) {
  for (const char* text : {R"("é€😀 \u0000 \u001f \ud83d\ude00 \uffff")", "-0.0", "-0", "1e5", "1E-7", "0.1",
                           "12345678901234567890", R"({"":[[],{},""," "],"a":{"a":null}})", "[true,false,null]"}) {
    const std::string once = Json::parse(text).dump();
    EXPECT_EQ(Json::parse(once).dump(), once) << text;
  }
  EXPECT_TRUE(std::signbit(Json::parse(Json(-0.0).dump()).as_number()));
}

TEST(Json, NumbersFollowTheStandardAndTheRangeOfADouble) {
  for (const char* text : {"1.e5", "-01", "00", "1e", "1e+", "--1", "1.5.2", "0x10", "1e999", "-1e999", "1e-999", "-.5",
                           "Infinity", "-"}) {
    EXPECT_THROW(Json::parse(text), Error) << text;
  }
  EXPECT_THROW(Json::parse(std::string(400, '9')), Error);
  EXPECT_EQ(Json::parse("0e0").as_number(), 0);
  EXPECT_FALSE(Json::parse("9223372036854775808").is_integer());
}

TEST(Json, RejectsDeepNesting) {
  const auto nested = [](int depth) {
    const auto levels = static_cast<std::size_t>(depth);
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_THROW(Json::parse(std::string(100000, '[')), Error);
  EXPECT_NO_THROW(Json::parse(nested(Json::kMaxDepth + 1)));
  EXPECT_THROW(Json::parse(nested(Json::kMaxDepth + 2)), Error);
}

TEST(Json, RejectsADocumentOverTheLimits) {
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      Json::parse(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string most = "[\"" + std::string(Json::kMaxBytes - 4, 'x') + "\"]";
  EXPECT_EQ(refusal(most), "");
  EXPECT_EQ(refusal(most + " "), "json: the document has 67108865 bytes or more; valid: up to 67108864");
  std::string many = "[0";
  for (std::size_t i = 0; i < Json::kMaxValues; ++i) many += ",0";
  EXPECT_EQ(refusal(many + "]"), "json: the document must have at most 4194304 values");
  const std::string two = "1 " + most + " 2";  // the limit applies per value instead of per text
  std::size_t position = 0;
  EXPECT_EQ(Json::parse_next(two, position).as_integer(), 1);
  EXPECT_EQ(Json::parse_next(two, position).size(), 1u);
  EXPECT_EQ(Json::parse_next(two, position).as_integer(), 2);
}

TEST(Json, CopiesAndMovesKeepTheirContents) {
  Json json = Json::parse(R"({"a": [1, "two"], "b": "text"})");
  Json copy = json;
  copy.set("b", 3);
  EXPECT_EQ(json.dump(), R"({"a":[1,"two"],"b":"text"})");
  EXPECT_EQ(copy.dump(), R"({"a":[1,"two"],"b":3})");
  json = json.at("a");  // assigns a member to its container
  EXPECT_EQ(json.dump(), R"([1,"two"])");
  const Json taken = std::move(json);
  EXPECT_EQ(taken.size(), 2u);
  Json empty = Json::array();
  empty.push_back("");
  EXPECT_EQ(empty.as_array()[0].as_string(), "");
  EXPECT_EQ(Json::object().set("k", Json::object()).dump(), R"({"k":{}})");
}

TEST(Json, WrongKindsAndMissingKeysAreErrors) {
  const Json json = Json::parse(R"({"a": [1, 2], "b": "x"})");
  EXPECT_EQ(json.at("a").as_array().size(), 2u);
  EXPECT_EQ(json.find("c"), nullptr);
  EXPECT_THROW(json.at("c"), Error);
  EXPECT_THROW(json.at("b").as_number(), Error);
  EXPECT_THROW(json.at("a").as_string(), Error);
  EXPECT_THROW(Json(1.5).as_integer(), Error);
}

// Replays the seeds of the fuzz harness.
TEST(JsonFuzz, OnlyValidSeedsAreAccepted) {
  const std::vector<std::string> valid{"deep", "large_numbers", "nested", "scalar", "utf8"};
  EXPECT_EQ(test::accepted_seeds("json", test::fuzz_json), valid);
}

TEST(JsonFuzz, MutationsAreRejectedOrValid) {
  EXPECT_GT(test::accepted_json_mutations("json", 4000, test::fuzz_json), 1000);
}

}  // namespace
}  // namespace strobe
