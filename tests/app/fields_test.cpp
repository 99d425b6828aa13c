// Tests app/fields.h: one table of fields defines the flags, JSON, checks and text of a configuration.
#include "app/fields.h"

#include <gtest/gtest.h>

#include "strobe/error.h"

namespace strobe {
namespace {

enum class Colour { red, green };

struct Paint {
  std::int64_t coats = 2;
  double drying_time = 1.5;
  bool glossy = false;
  Colour colour = Colour::red;
  bool operator==(const Paint&) const = default;
};

}  // namespace

template <>
std::span<const Field<Paint>> fields<Paint>() {
  static const Field<Paint> all[] = {
      integer_field<Paint>({"coats", 1, 9}, &Paint::coats, "coats of paint", {"layers"}),
      number_field<Paint>({"drying_time", 0, 10}, &Paint::drying_time, "hours"),
      switch_field<Paint>("glossy", &Paint::glossy, "shines"),
      word_field<Paint>(
          "colour", "NAME", &Paint::colour, {"red", "green"},
          [](const std::string& word) { return word == "red" ? Colour::red : Colour::green; },
          [](Colour colour) { return colour == Colour::red ? "red" : "green"; }, "its colour"),
  };
  return all;
}

namespace {

Given<Paint> parse(std::vector<std::string_view> words) {
  Given<Paint> given;
  OptionTable table;
  for (const Field<Paint>& field : fields<Paint>()) add_field(table, field, given);
  table.parse(words);
  return given;
}

std::string refusal_of(const Paint& paint, Source source) {
  try {
    for (const Field<Paint>& field : fields<Paint>()) field.check(paint, source);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Fields, FlagsSetOnlyWhatIsGiven) {
  const Given<Paint> given = parse({"--layers", "3", "--glossy", "--colour=green"});
  EXPECT_TRUE(given.has("coats"));
  EXPECT_FALSE(given.has("drying_time"));
  Paint paint{.drying_time = 4};
  given.apply_to(paint);
  EXPECT_EQ(paint, (Paint{.coats = 3, .drying_time = 4, .glossy = true, .colour = Colour::green}));
}

TEST(Fields, FlagValuesMustBeInTheirRange) {
  EXPECT_THROW(parse({"--coats", "10"}), Error);
  EXPECT_THROW(parse({"--drying-time", "10"}), Error);
  EXPECT_THROW(parse({"--colour", "blue"}), Error);
}

TEST(Fields, HelpHasAnEntryPerField) {
  Given<Paint> given;
  OptionTable table;
  for (const Field<Paint>& field : fields<Paint>()) add_field(table, field, given);
  EXPECT_EQ(table.help(),
            "  --coats N          coats of paint (also --layers)\n"
            "  --drying-time X    hours\n"
            "  --glossy[=on|off]  shines\n"
            "  --colour NAME      its colour\n"
            "\nIn flag names - and _ are the same. --flag=value is the same as --flag value.\n"
            "All commands have --quiet (no notes, no progress) and --color auto|always|never.\n");
}

TEST(Fields, JsonRoundTrips) {
  const Paint paint{.coats = 7, .drying_time = 0.1, .glossy = true, .colour = Colour::green};
  Paint read;
  for (const Field<Paint>& field : fields<Paint>()) field.read(read, Json::parse(field.json(paint).dump()));
  EXPECT_EQ(read, paint);
  EXPECT_THROW(fields<Paint>()[0].read(read, Json("seven")), Error);
}

TEST(Fields, ErrorsNameTheKeyOrTheFlag) {
  EXPECT_EQ(refusal_of({}, Source::file), "");
  EXPECT_EQ(refusal_of({.coats = 0}, Source::file), "coats 0: valid: 1 to 9");
  EXPECT_EQ(refusal_of({.drying_time = 10}, Source::file), "drying_time 10: valid: at least 0, below 10");
  EXPECT_EQ(refusal_of({.drying_time = -1}, Source::flag), "--drying-time -1: valid: at least 0, below 10");
}

}  // namespace
}  // namespace strobe
