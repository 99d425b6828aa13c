// Tests the report's sentence on unsettled medians and on the machine's load.
#include "report/noise.h"

#include <gtest/gtest.h>

#include "report/rows.h"

namespace strobe::report {
namespace {

using test::row_text;

std::string noise_of(const std::string& rows) { return noise_text(cells_of(parse_results(rows, "rows"))); }

TEST(Noise, CountsMediansThatAreNotSettled) {
  const std::string rows = row_text({.seqlen_q = 64, .forward = {0.01, 0.01001, 0.01}}) +
                           row_text({.implementation = "standard", .seqlen_q = 128, .forward = {0.01, 0.02, 0.04}});
  EXPECT_EQ(noise_of(rows), "1 of 2 medians are not settled within 1 % (widest: within 75.0 %, standard forward)");
}

TEST(Noise, ASingleSampleIsNotSettled) {
  EXPECT_EQ(noise_of(row_text({.forward = {0.01}})), "1 of 1 medians are not settled within 1 %");
}

TEST(Noise, NamesTheLoadOfTheMachine) {
  std::string row = row_text({.forward = {0.01, 0.01001, 0.01}});
  const std::string cpu = "\"cpu\":{";
  row.replace(row.find(cpu), cpu.size(), "\"load\":2.5," + cpu + "\"cores\":2,");
  EXPECT_EQ(noise_of(row), "All 1 medians are settled within 1 %; load average 2.5 on 2 cores");
}

TEST(Noise, IsEmptyWithoutTimes) { EXPECT_EQ(noise_of(row_text({.status = "oom"})), ""); }

}  // namespace
}  // namespace strobe::report
