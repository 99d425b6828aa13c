// Tests report/collectives: the charts of the result rows of `strobe comm`.
#include "report/collectives.h"

#include <gtest/gtest.h>

namespace strobe::test {
namespace {

Json row(const char* operation, int ranks, std::int64_t bytes, double bus) {
  return Json::object({{"operation", operation},
                       {"engine", "mpi"},
                       {"memory", "host"},
                       {"ranks", ranks},
                       {"bytes", bytes},
                       {"status", "ok"},
                       {"slowest_rank", 1},
                       {"algorithm_bandwidth_bytes_per_s", bus / 2 * 1e9},
                       {"bus_bandwidth_bytes_per_s", bus * 1e9},
                       {"statistics", Json::object({{"mean_s", 0.002}, {"median_s", 0.001}, {"spread", 0.25}})}});
}

TEST(CollectiveFigures, AreOnePerOperationWithALinePerNumberOfRanks) {
  const std::vector<Json> rows{row("all-reduce", 2, 1 << 20, 3), row("all-reduce", 2, 10 << 20, 4),
                               row("all-reduce", 4, 1 << 20, 2), row("broadcast", 2, 1 << 20, 5)};
  const std::vector<report::Figure> figures = report::collective_figures(rows);
  ASSERT_EQ(figures.size(), 2u);
  ASSERT_EQ(figures[0].series.size(), 2u);
  EXPECT_EQ(figures[0].series[0].name, "mpi, 2 ranks");
  ASSERT_EQ(figures[0].series[0].points.size(), 2u);
  EXPECT_EQ(figures[0].x.title, "size, MiB");
  EXPECT_DOUBLE_EQ(figures[0].series[0].points[1].x, 10);
  EXPECT_DOUBLE_EQ(figures[0].series[0].points[1].y, 4);
  EXPECT_EQ(figures[1].id, "broadcast");
}

}  // namespace
}  // namespace strobe::test
