// Tests a sweep's result file: incomplete last lines, files of other programs, links, and locks.
#include "bench/sweep/result_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "bench/row.h"
#include "strobe/error.h"
#include "support/scratch.h"

namespace strobe::bench {
namespace {

class ResultFileTest : public testing::Test {
 protected:
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  std::string read() const { return scratch_.read("rows.jsonl"); }
  int rows() const {
    int count = 0;
    read_rows(path_, [&](const Json&, int) { ++count; });
    return count;
  }

  const test::Scratch scratch_;
  const std::string path_ = (scratch_.path() / "rows.jsonl").string();
};

const AcceptRow kAny = [](const Json&, int) {};

TEST_F(ResultFileTest, EachRowIsALineThatAReaderSees) {
  EXPECT_EQ(rows(), 0);  // no file
  {
    ResultFile file(path_, kAny);
    file.append(Json::object({{"a", 1}}));
    EXPECT_EQ(read(), "{\"a\":1}\n");
    file.append(Json::object({{"a", "x\ny"}}));
  }
  EXPECT_EQ(rows(), 2);
  ResultFile again(path_, kAny);
  EXPECT_EQ(again.torn_bytes(), 0);
  again.append(Json::object({{"a", 3}}));
  EXPECT_EQ(rows(), 3);
}

TEST_F(ResultFileTest, EveryTornEndIsRemoved) {
  const std::string row = "{\"forward\":1}\n", whole = row + row;
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    write(whole.substr(0, length));
    const std::size_t kept = length / row.size() * row.size();
    ResultFile file(path_, kAny);
    EXPECT_EQ(file.torn_bytes(), static_cast<std::int64_t>(length - kept));
    EXPECT_EQ(read(), whole.substr(0, kept));
    file.append(Json::object({{"b", 1}}));
    EXPECT_EQ(read(), whole.substr(0, kept) + "{\"b\":1}\n");
  }
}

TEST_F(ResultFileTest, ALineThatIsNotJsonIsRejectedAndNothingIsChanged) {
  const std::string text = "{\"a\":1}\nhello\n{\"a\":";
  write(text);
  try {
    ResultFile file(path_, kAny);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("line 2 is not a row"), std::string::npos) << error.what();
  }
  EXPECT_EQ(read(), text);
}

TEST_F(ResultFileTest, AnUnacceptableRowIsRejectedAndNothingIsChanged) {
  write("{\"a\":1}\n{\"a\":");
  const AcceptRow none = [](const Json&, int) { throw Error(ErrorCode::invalid_argument, "no"); };
  EXPECT_THROW(ResultFile(path_, none), Error);
  EXPECT_EQ(read(), "{\"a\":1}\n{\"a\":");
}

TEST_F(ResultFileTest, AForeignFileWithoutANewlineIsRejectedAndNothingIsChanged) {
  for (const std::string& text : {std::string("my thesis: three months of work"), std::string("{\"a\":1}"),
                                  std::string("{\n", 1) + " ", std::string(100000, '\0')}) {
    write(text);
    for (const bool only_read : {false, true}) {
      try {
        only_read ? read_rows(path_, kAny) : static_cast<void>(ResultFile(path_, kAny));
        ADD_FAILURE() << text.substr(0, 40);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        EXPECT_NE(std::string(error.what()).find("--output " + path_ + ": is not a file of rows"), std::string::npos)
            << error.what();
      }
    }
    EXPECT_EQ(read(), text);
  }
}

TEST_F(ResultFileTest, BenchRowsStartWithTheRowPrefix) {
  Row row;
  row.implementation = "flash2";
  EXPECT_EQ(row_json(row, {}).dump().find(kRowBegin), 0u);
}

TEST_F(ResultFileTest, LinksAndFifosAreRejectedAtOnce) {
  const std::string victim = (scratch_.path() / "victim").string();
  std::ofstream(victim) << "{\"forward\":";
  std::filesystem::create_symlink("victim", path_);
  EXPECT_THROW(ResultFile(path_, kAny), Error);
  EXPECT_EQ(scratch_.read("victim"), "{\"forward\":");
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0666), 0);
  EXPECT_THROW(ResultFile(path_, kAny), Error);
}

TEST_F(ResultFileTest, DropsRowsAndContinues) {
  ResultFile file(path_, kAny);
  for (const int i : {1, 2, 3}) file.append(Json::object({{"a", i}}));
  file.drop([](const Json& row) { return row.at("a").as_integer() == 2; });
  file.append(Json::object({{"a", 4}}));
  EXPECT_EQ(read(), "{\"a\":1}\n{\"a\":3}\n{\"a\":4}\n");
  EXPECT_EQ(scratch_.entries(), 1u);
}

TEST_F(ResultFileTest, TwoWritersDoNotShareAFile) {
  ResultFile file(path_, kAny);
  try {
    ResultFile second(path_, kAny);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("another sweep"), std::string::npos) << error.what();
  }
}

TEST_F(ResultFileTest, AcceptsOnlyRegularFiles) {
  EXPECT_THROW(ResultFile("", kAny), Error);
  EXPECT_THROW(ResultFile(scratch_.path().string(), kAny), Error);
  EXPECT_THROW(ResultFile("/dev/null", kAny), Error);
  EXPECT_THROW(ResultFile((scratch_.path() / "no" / "where").string(), kAny), Error);
}

}  // namespace
}  // namespace strobe::bench
