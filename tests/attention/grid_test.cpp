// Applies the exactness rule (support/compare.h) to the generated grid of cases (support/grid.h), for flash2 on every
// instruction set of this machine. support/selection.h documents the environment variables that select cases.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/compare.h"
#include "support/grid.h"
#include "support/isa_scope.h"
#include "support/run.h"
#include "support/selection.h"

namespace strobe::test {
namespace {

constexpr std::int64_t kShards = 24;
constexpr std::int64_t kPerShard = kGridSize / kShards;
static_assert(kPerShard * kShards == kGridSize);

// Repeats a case that broke the rule with many other random inputs (draws), on these instruction sets. All sets use the
// same draws, because the reference takes most of the time.
std::string exactness_of_many(Case c, const std::vector<std::string>& isas) {
  std::map<std::string, Draws> draws;
  for (int draw = 0; draw < Draws::kCount && !isas.empty(); ++draw) {
    ++c.seed;
    const Data data(c);
    const Results standard = run(data, {.kernel = "standard", .threads = c.threads}).results;
    const Results reference = oracle(data);
    const Rule rule(c, reference, standard);
    for (const std::string& isa : isas) {
      const IsaScope scope(isa);
      const Outcome flash2 = run(data, {.kernel = "flash2", .threads = c.threads, .own_workspace = c.own_workspace});
      const Judgement judgement = rule.judge(flash2.results);
      if (const std::string wrong = flash2.complaint + judgement.gross; !wrong.empty()) return isa + ":\n" + wrong;
      draws[isa].add(judgement.broken);
    }
  }
  std::string text;
  for (const auto& [isa, of_isa] : draws) {
    if (const std::string verdict = of_isa.verdict(); !verdict.empty()) text += isa + ":\n" + verdict;
  }
  return text;
}

class Grid : public testing::TestWithParam<std::int64_t> {};

TEST_P(Grid, Exact) {
  const auto isas = available_isas();
  std::int64_t ran = 0;
  for (std::int64_t index = GetParam() * kPerShard; index < (GetParam() + 1) * kPerShard; ++index) {
    if (!selected(index)) continue;
    const Case c = grid_case(index);
    SCOPED_TRACE(describe(c));
    const Data data(c);
    const Results reference = oracle(data);
    Outcome standard;
    ASSERT_NO_THROW(standard = run(data, {.kernel = "standard", .threads = c.threads}));
    EXPECT_EQ(standard.complaint, "") << "standard";
    EXPECT_EQ(plausibility(c, reference, standard.results), "") << "standard";
    const Rule rule(c, reference, standard.results);
    std::vector<std::string> broken_on;
    for (const std::string& isa : isas) {
      const IsaScope scope(isa);
      Outcome flash2;
      ASSERT_NO_THROW(flash2 = run(data, {.kernel = "flash2", .threads = c.threads, .own_workspace = c.own_workspace}))
          << isa;
      EXPECT_EQ(flash2.complaint, "") << isa;
      const Judgement judgement = rule.judge(flash2.results);
      EXPECT_EQ(judgement.gross, "") << isa;
      if (!judgement.all_broken().empty()) broken_on.push_back(isa);
    }
    EXPECT_EQ(exactness_of_many(c, broken_on), "");
    ++ran;
  }
  RecordProperty("cases", static_cast<int>(ran));
  if (ran == 0) GTEST_SKIP() << "no case of this shard is selected";
}

INSTANTIATE_TEST_SUITE_P(Shards, Grid, testing::Range(std::int64_t{0}, kShards));

TEST(GridCoverage, CasesCanBeParsedFromTheirText) {
  for (std::int64_t i = 0; i < kGridSize; ++i) {
    const Case c = grid_case(i), again = parse_case(text_of(c));
    ASSERT_EQ(text_of(again), text_of(c));
    ASSERT_EQ(features(again), features(c)) << text_of(c);
    ASSERT_EQ(again.lengths_q, c.lengths_q);
    ASSERT_EQ(again.first_keys, c.first_keys);
    ASSERT_EQ(again.scale, c.scale);
  }
  EXPECT_EQ(text_of(case_from("h2 d{}/4 {} sinks={}", 3, name_of(DType::bf16), false)), "b1 h2 s1 d3/4 bf16 seed=1");
  for (const char* text : {"b2x", "h2 nothing", "bias=hbqk", "sinks=2", "align=left", "seed=x", "window=3", "q=bhs"}) {
    EXPECT_THROW(parse_case(text), Error) << text;
  }
}

TEST(GridCoverage, EveryFeatureValueOccurs) {
  constexpr int kAtLeast = 12;
  std::map<std::string, int> counts;
  for (std::int64_t index = 0; index < kGridSize; ++index) {
    for (const std::string& feature : features(grid_case(index))) ++counts[feature];
  }
  for (const std::string& feature : required_features()) {
    EXPECT_GE(counts[feature], kAtLeast) << feature;
  }
}

// Every pair of options, and of an option and a dtype, must occur, because a kernel may fail only for the combination.
TEST(GridCoverage, EveryPairOfOptionsOccurs) {
  constexpr int kAtLeast = 4;
  const std::set<std::string> options = {"dtype=fp32",
                                         "dtype=fp16",
                                         "dtype=bf16",
                                         "causal=bottom_right",
                                         "causal=top_left",
                                         "window=left",
                                         "window=left+causal",
                                         "softcap=on",
                                         "alibi=top_left",
                                         "alibi=bottom_right",
                                         "sinks=on",
                                         "dropout=0.5",
                                         "lengths=both",
                                         "lengths=packed",
                                         "group=2",
                                         "group=4",
                                         "bias=[B,H,Sq,Sk]",
                                         "bias=[1,H,Sq,Sk]",
                                         "scale=negative",
                                         "layout_do=expanded_all",
                                         "blocks=several",
                                         "mask=[B,H,Sq,Sk]",
                                         "mask=[B,1,1,Sk]",
                                         "d_lse=on",
                                         "first_keys=yes"};
  std::map<std::pair<std::string, std::string>, int> counts;
  for (std::int64_t index = 0; index < kGridSize; ++index) {
    auto list = features(grid_case(index));
    std::erase_if(list, [&](const std::string& feature) { return !options.contains(feature); });
    for (const auto& a : list)
      for (const auto& b : list) ++counts[{a, b}];
  }
  const auto axis = [](const std::string& feature) { return feature.substr(0, feature.find('=')); };
  const auto exclude = [&](const std::string& a, const std::string& b) {  // values that contradict each other
    return axis(a) == axis(b) || (axis(a) == "causal" && axis(b) == "window") ||
           (axis(a) == "causal" && axis(b) == "alibi") || (axis(a) == "alibi" && axis(b) == "window");
  };
  for (const auto& a : options) {
    for (const auto& b : options) {
      if (exclude(a, b) || exclude(b, a)) continue;
      const auto is_rare = [&](const std::string& feature) {
        return axis(feature) == "bias" || axis(feature) == "mask";
      };
      const int least = is_rare(a) || is_rare(b) ? 1 : kAtLeast;
      EXPECT_GE((counts[{a, b}]), least) << a << " with " << b;
    }
  }
}

}  // namespace
}  // namespace strobe::test
