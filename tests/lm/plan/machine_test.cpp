// Tests the predicted costs of collectives against values computed by hand, and the link (bandwidth and latency) that
// is fitted to measured times.
#include "lm/plan/machine.h"

#include <gtest/gtest.h>

#include "strobe/error.h"

namespace strobe::lm {
namespace {

using comm::Kind;

const Machine kOneNode{.inside = {.bandwidth = 100, .latency = 0.5}};
const Machine kNodesOfFour{
    .node = 4, .inside = {.bandwidth = 100, .latency = 0.5}, .between = {.bandwidth = 10, .latency = 2}};

TEST(CollectiveCost, OneLevelCostsItsRoundsAndBytes) {
  // An all-reduce on 8 devices has 3 rounds of reduce-scatter and 3 of all-gather, and sends 2 * 7/8 of the 800 bytes.
  const Cost all_reduce = collective_cost(kOneNode, Kind::all_reduce, 800, {8, 1});
  EXPECT_DOUBLE_EQ(all_reduce.inside, 1400);
  EXPECT_DOUBLE_EQ(all_reduce.between, 0);
  EXPECT_DOUBLE_EQ(all_reduce.seconds, 6 * 0.5 + 14);
  EXPECT_DOUBLE_EQ(collective_cost(kOneNode, Kind::all_gather, 800, {8, 1}).seconds, 3 * 0.5 + 7);
  EXPECT_DOUBLE_EQ(collective_cost(kOneNode, Kind::reduce_scatter, 800, {8, 1}).seconds, 3 * 0.5 + 7);
  EXPECT_DOUBLE_EQ(collective_cost(kOneNode, Kind::all_reduce, 800, {1, 1}).seconds, 0);
  EXPECT_DOUBLE_EQ(rounds_of(Kind::all_gather, 5), 3);
  // More devices than an int can represent.
  EXPECT_NEAR(collective_cost(kOneNode, Kind::all_gather, 800, {std::int64_t{1} << 32, 1}).seconds, 32 * 0.5 + 8, 1e-6);
}

TEST(CollectiveCost, BetweenNodesEveryDeviceSendsItsShare) {
  // Inside a node of 4 devices: 2 + 2 rounds and 2 * 3/4 * 800 bytes. Between 4 nodes: the same with 200 bytes per
  // device.
  const Cost cost = collective_cost(kNodesOfFour, Kind::all_reduce, 800, {16, 1});
  EXPECT_DOUBLE_EQ(cost.inside, 1200);
  EXPECT_DOUBLE_EQ(cost.between, 300);
  EXPECT_DOUBLE_EQ(cost.seconds, (4 * 0.5 + 12) + (4 * 2 + 30));
}

TEST(CollectiveCost, AGroupWithStridesHasFewerNeighboursInItsNode) {
  const Cost two = collective_cost(kNodesOfFour, Kind::all_gather, 800,
                                   {8, 2});  // stride 2 in nodes of four: 2 devices per node, 4 nodes
  EXPECT_DOUBLE_EQ(two.inside, 400);
  EXPECT_DOUBLE_EQ(two.between, 0.75 * 400);
  const Cost none = collective_cost(kNodesOfFour, Kind::all_gather, 800, {8, 4});
  EXPECT_DOUBLE_EQ(none.inside, 0);
  EXPECT_DOUBLE_EQ(none.between, 700);
  const Cost wide = collective_cost(kNodesOfFour, Kind::all_gather, 800, {8, 64});
  EXPECT_DOUBLE_EQ(wide.seconds, none.seconds);
}

std::vector<LinkSample> samples_of(const Link& link, std::int64_t ranks) {
  std::vector<LinkSample> samples;
  for (const Kind kind : {Kind::all_reduce, Kind::all_gather}) {
    for (const double bytes : {1e4, 1e6, 1e8}) {
      const Machine machine{.inside = link};
      samples.push_back({kind, ranks, bytes, collective_cost(machine, kind, bytes, {ranks, 1}).seconds});
    }
  }
  return samples;
}

TEST(FitLink, RecoversTheLink) {
  for (const std::int64_t ranks : {2, 6}) {
    const Link link = fit_link(samples_of({.bandwidth = 3e9, .latency = 2e-5}, ranks));
    EXPECT_NEAR(link.bandwidth, 3e9, 1);
    EXPECT_NEAR(link.latency, 2e-5, 1e-12);
  }
}

TEST(FitLink, ALatencyIsNeverBelowZero) {
  // The larger message is slower per byte: a line through both samples has a negative intercept.
  const std::vector<LinkSample> samples{{Kind::all_reduce, 2, 1e6, 1e-3}, {Kind::all_reduce, 2, 1e8, 2e-1}};
  const Link link = fit_link(samples);
  EXPECT_EQ(link.latency, 0);
  EXPECT_GT(link.bandwidth, 5e8);
  EXPECT_LT(link.bandwidth, 1e9);
}

TEST(FitLink, RejectsOneSizeAndTimesThatDoNotGrow) {
  const LinkSample one{Kind::all_reduce, 2, 1e6, 1e-3};
  EXPECT_THROW(fit_link({&one, 1}), Error);
  EXPECT_THROW(fit_link({}), Error);
  const std::vector<LinkSample> falling{{Kind::all_reduce, 2, 1e3, 2e-3}, {Kind::all_reduce, 2, 1e6, 1e-3}};
  EXPECT_THROW(fit_link(falling), Error);
}

}  // namespace
}  // namespace strobe::lm
