// Tests the forecast of the remaining time that `strobe bench` and `strobe lm bench` print.
#include <gtest/gtest.h>

#include <regex>

#include "cli/background.h"

namespace strobe::test {
namespace {

// Starts a command, ends it after its forecast, and returns its standard error.
std::string forecast_of(const std::string& arguments, const Scratch& scratch) {
  const Background program(arguments, scratch, "errors");
  const auto printed = [&] { return scratch.read("errors"); };
  EXPECT_TRUE(
      becomes([&] { return printed().find("at the rate so far\n") != std::string::npos || program.has_ended(); }));
  return printed();
}

constexpr const char* kForecast = "note: about \\d+ (h|min) \\d+ (min|s) left, at the rate so far\n";
constexpr const char* kShort = "bench --seq_len 64 --num_heads 1 --emb_dim 32 --quick --threads 1 ";

TEST(Forecast, BenchForecastsManySamples) {
  const Scratch scratch;
  const std::string printed = forecast_of(std::string(kShort) + "--impl reference --repeats 1000000", scratch);
  EXPECT_TRUE(std::regex_match(printed, std::regex(kForecast))) << printed;
}

TEST(Forecast, BenchForecastsLaterCellsFromTheFirst) {
  const Scratch scratch;
  std::ofstream(scratch.path() / "cells") << "--seq_len 64\n--seq_len 131072\n";
  const std::string printed = forecast_of(
      "bench --num_heads 1 --emb_dim 32 --impl reference --quick --threads 1 --repeats 2 --cells cells", scratch);
  EXPECT_TRUE(std::regex_match(printed, std::regex(kForecast))) << printed;
}

TEST(Forecast, BenchForecastsLaunchesFromTheFirst) {
  const Scratch scratch;
  const std::string printed = forecast_of(std::string(kShort) + "--repeats 2 --launches 1000", scratch);
  EXPECT_TRUE(std::regex_search(printed, std::regex(std::string(kForecast) + "(launch 2 of 1000\n|$)"))) << printed;
}

TEST(Forecast, LmBenchForecastsManySteps) {
  const Scratch scratch;
  const std::string printed = forecast_of("lm bench --size tiny --quick --threads 1 --steps 1000000", scratch);
  EXPECT_TRUE(std::regex_match(printed, std::regex(kForecast))) << printed;
}

TEST(Forecast, ShortRunsHaveNoForecast) {
  const Scratch scratch;
  EXPECT_EQ(run_program(std::string(kShort) + "--repeats 2", scratch).errors, "");
  const Program program = run_program("lm bench --size tiny --context 8 --threads 1 --quick --steps 1", scratch);
  EXPECT_EQ(program.errors.find("left"), std::string::npos) << program.errors;
}

}  // namespace
}  // namespace strobe::test
