// Tests the benchmark of a collective: bus bandwidth factors, the time of the slowest rank, and the result row. Uses
// one rank; tests/cli/launch/comm_test.cpp uses several.
#include "bench/collective.h"

#include <gtest/gtest.h>

namespace strobe::test {
namespace {

using comm::Kind;

TEST(Collective, BusFactorsFollowFromTheNumberOfRanks) {
  EXPECT_DOUBLE_EQ(comm::bus_factor(Kind::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(comm::bus_factor(Kind::reduce_scatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(comm::bus_factor(Kind::all_gather, 2), 0.5);
  EXPECT_DOUBLE_EQ(comm::bus_factor(Kind::broadcast, 4), 1);
}

TEST(Collective, EachSampleIsThatOfTheSlowestRank) {
  EXPECT_EQ(bench::slowest({{1, 5, 2}, {3, 1, 2}}), (std::vector<double>{3, 5, 2}));
  EXPECT_TRUE(bench::slowest({}).empty());
}

TEST(Collective, ARowHasTimesRatesAndTheCheck) {
  comm::Communicator communicator(comm::world_from([](const char*) -> const char* { return nullptr; }));
  for (const Kind kind : {Kind::all_reduce, Kind::broadcast, Kind::reduce_scatter, Kind::all_gather}) {
    const bench::CollectiveResult result =
        bench::measure_collective(communicator, {.kind = kind, .bytes = 4000}, {.repeats = 4}, bench::Plain::left_out);
    const Json row = bench::collective_rows().json({result, communicator});
    EXPECT_EQ(row.at("status").as_string(), "ok");
    EXPECT_EQ(row.at("operation").as_string(), comm::name_of(kind));
    EXPECT_EQ(row.at("check").at("values").as_integer(), 1000);
    EXPECT_EQ(row.at("statistics").at("n").as_integer(), 4);
    EXPECT_EQ(row.at("rank_means_s").as_array().size(), 1u);
    EXPECT_GT(row.at("algorithm_bandwidth_bytes_per_s").as_number(), 0);
    EXPECT_TRUE(row.at("time_over_plain_mpi").is_null());
  }
}

TEST(Collective, TheTableShowsTimesRatesAndTheRatio) {
  const Json with_plain = Json::object(
      {{"operation", "all-reduce"},
       {"engine", "mpi"},
       {"memory", "host"},
       {"ranks", 2},
       {"bytes", 10 << 20},
       {"status", "ok"},
       {"slowest_rank", 1},
       {"algorithm_bandwidth_bytes_per_s", 1.5e9},
       {"bus_bandwidth_bytes_per_s", 3e9},
       {"statistics", Json::object({{"mean_s", 0.002}, {"median_s", 0.001}, {"spread", 0.25}})},
       {"time_over_plain_mpi", Json::object({{"median", 0.9}, {"interval", Json::array({Json(0.85), Json(1.02)})}})}});
  const Json refused = Json::object({{"operation", "broadcast"},
                                     {"engine", "mpi"},
                                     {"memory", "host"},
                                     {"ranks", 4},
                                     {"bytes", 1 << 30},
                                     {"status", "refused"},
                                     {"reason", "needs more"}});
  const std::vector<Json> rows{with_plain, refused};
  const Table table = bench::collective_rows().table(rows);
  ASSERT_EQ(table.cells.size(), 2u);
  EXPECT_EQ(table.cells[0], (std::vector<std::string>{"all-reduce", "mpi", "host", "2", "10.0 MiB", "2.00", "1.00",
                                                      "25 %", "1", "1.50", "3.00", "0.90 (0.85 to 1.02)", ""}));
  EXPECT_EQ(table.cells[1], (std::vector<std::string>{"broadcast", "mpi", "host", "4", "1.00 GiB", "refused", "", "",
                                                      "", "", "", "", "needs more"}));
  for (const auto& cells : table.cells) EXPECT_EQ(cells.size(), table.columns.size());
}

TEST(Collective, RejectsOversizedCasesBeforeAllocating) {
  comm::Communicator communicator(comm::world_from([](const char*) -> const char* { return nullptr; }));
  const bench::CollectiveResult result =
      bench::measure_collective(communicator, {.bytes = std::int64_t{1} << 50}, {.repeats = 1}, bench::Plain::left_out);
  EXPECT_EQ(result.status, "refused");
  EXPECT_EQ(result.reason.substr(0, 6), "needs ");
}

}  // namespace
}  // namespace strobe::test
