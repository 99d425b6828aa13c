// Tests row types, whose columns yield JSON and tables, and the conversion of rows of the old form.
#include "results/schema.h"

#include <gtest/gtest.h>

#include "results/each_row.h"
#include "strobe/error.h"

namespace strobe {
namespace {

std::string converted_text(const char* text) { return converted_row(Json::parse(text)).dump(); }

TEST(Schema, OldRowsGetSiUnits) {
  EXPECT_EQ(converted_text(R"j({"step":{"median(ms)":2,"samples(s)":[3]},"held(B)":{"a":4},"x":[{"y(GB/s)":5}]})j"),
            R"j({"step":{"median_s":0.002,"samples_s":[3]},"held_bytes":{"a":4},"x":[{"y_bytes_per_s":5000000000}]})j");
  EXPECT_EQ(converted_text(R"j({"time(s)":1,"bucket(MB)":25,"memory(MB)":2,"share(%)":50,"tokens/s":6,"FLOP":7})j"),
            R"j({"time_s":1,"bucket_bytes":25000000,"memory_bytes":2097152,"share":0.5,"tokens_per_s":6,"flop":7})j");
  EXPECT_EQ(converted_text(R"j({"part exposed":1,"threads of a rank":2,"w(s)":null,"error":"e"})j"),
            R"j({"part_exposed":1,"threads_per_rank":2,"w_s":null,"reason":"e"})j");
}

TEST(Schema, KeysOfTheSourceReportsStay) {
  const char* const row = R"j({"forward":{"time(s)":1,"FLOPS(TFLOPs/s)":2},"peak_memory_usage(MB)":3})j";
  EXPECT_EQ(converted_text(row), row);
}

TEST(Schema, RowsWithAVersionAreNotConverted) {
  const char* const row = R"j({"schema":2,"a(ms)":1})j";
  EXPECT_EQ(converted_text(row), row);
  EXPECT_THROW(converted_text(R"j({"schema":3})j"), Error);
  EXPECT_THROW(converted_text(R"j({"schema":"2"})j"), Error);
}

TEST(Schema, RowsOfADocumentShareItsEnvironment) {
  std::string all;
  const auto take = [&](const Json& row) { all += row.dump() + ";"; };
  each_row(R"j({"environment":{"date":"d"},"rows":[{"a(ms)":1},{"schema":2,"environment":1},3]})j", "f", take);
  EXPECT_EQ(all, R"j({"a_s":0.001,"environment":{"date":"d"}};{"schema":2,"environment":1};3;)j");
  try {
    each_row(R"j({"rows":[1,{"schema":9}]})j", "f", take);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "f, line 1: row 2: schema is 9; valid: 2");
  }
}

struct Sample {
  std::string name;
  double seconds;
};

TEST(Schema, ColumnsYieldJsonAndTables) {
  const RowType<Sample> type{
      .begin = [](Json& json,
                  const Sample& row) { json.set("name", row.name).set("status", row.seconds > 0 ? "ok" : "oom"); },
      .identity = {{"name", left("name")}},
      .figures = {{"step.mean_s", "step ms", {}, number_text("{:.1f}", 1e3)},
                  {"step", "",
                   [](const Sample& row) {
                     return Json::object({{"mean_s", row.seconds}});
                   }},
                  {"rate", "rate", [](const Sample&) { return Json(); }},
                  {"reason", left("remark"), {}}}};
  std::vector<Json> rows{type.json({"a", 0.002}), type.json({"b", 0})};
  EXPECT_EQ(rows[0].dump(), R"j({"schema":2,"name":"a","status":"ok","step":{"mean_s":0.002},"rate":null})j");
  EXPECT_EQ(rows[1].dump(), R"j({"schema":2,"name":"b","status":"oom"})j");
  rows[1].set("reason", "too large");
  EXPECT_EQ(type.table(rows).text(),
            "name  step ms  rate  remark\na         2.0     -\nb         oom        too large\n");
}

}  // namespace
}  // namespace strobe
