// Tests the strategies of gradient exchange: their names, and how each groups tensors into buckets.
#include "lm/data_parallel/strategy.h"

#include <gtest/gtest.h>

#include "lm/models/parameters.h"
#include "strobe/error.h"

namespace strobe::lm {
namespace {

using Places = std::vector<std::vector<std::size_t>>;

// Returns contiguous tensors with these element counts.
std::vector<Tensor> tensors_of(std::initializer_list<std::int64_t> counts) {
  std::vector<Tensor> tensors;
  std::int64_t first = 0;
  for (const std::int64_t count : counts) {
    tensors.push_back({.first = first, .count = count});
    first += count;
  }
  return tensors;
}

Places places_of(const std::vector<Bucket>& buckets) {
  Places places;
  for (const Bucket& bucket : buckets) places.push_back(bucket.tensors);
  return places;
}

TEST(Buckets, FillFromTheLastTensorAndLargeTensorsAreSeparate) {
  const std::vector<Tensor> tensors = tensors_of({3, 2, 20, 4, 6, 5});
  const std::vector<Bucket> buckets = buckets_of(tensors, Grouping::buckets, 44);  // bytes: 11 floats
  EXPECT_EQ(places_of(buckets), (Places{{5, 4}, {3}, {2}, {1, 0}}));
  EXPECT_EQ(buckets[0].first, 29);
  EXPECT_EQ(buckets[0].count, 11);
  EXPECT_EQ(buckets[3].first, 0);
  EXPECT_EQ(buckets[3].count, 5);
  EXPECT_EQ(places_of(buckets_of(tensors, Grouping::buckets, 43)), (Places{{5}, {4, 3}, {2}, {1, 0}}));
}

TEST(Buckets, OnePerTensorOrOneForAll) {
  const std::vector<Tensor> tensors = tensors_of({3, 2, 20});
  EXPECT_EQ(places_of(buckets_of(tensors, Grouping::each, 0)), (Places{{2}, {1}, {0}}));
  const std::vector<Bucket> all = buckets_of(tensors, Grouping::all, 0);
  EXPECT_EQ(places_of(all), (Places{{2, 1, 0}}));
  EXPECT_EQ(all[0].first, 0);
  EXPECT_EQ(all[0].count, 25);
}

TEST(Buckets, EndAtAFrozenTensorAndAtAGap) {
  std::vector<Tensor> tensors = tensors_of({3, 2, 20, 4});
  tensors[2].frozen = true;
  EXPECT_EQ(places_of(buckets_of(tensors, Grouping::all, 0)), (Places{{3}, {1, 0}}));
  tensors = tensors_of({3, 2, 20, 4});
  tensors[3].first += 1;
  EXPECT_EQ(places_of(buckets_of(tensors, Grouping::all, 0)), (Places{{3}, {2, 1, 0}}));
  for (Tensor& tensor : tensors) tensor.frozen = true;
  EXPECT_TRUE(buckets_of(tensors, Grouping::all, 0).empty());
}

// Each parameter of a model is in exactly one bucket. A bucket exceeds the limit only if it has a single tensor.
TEST(Buckets, OfAModelContainEveryParameterOnce) {
  std::vector<Tensor> tensors;
  for (const Parameter& parameter : parameter_table(shape_of("tiny"))) {
    tensors.push_back({.first = parameter.first, .count = parameter.count()});
  }
  for (const std::int64_t bytes : {4, 100'000, 1'000'000, 1'000'000'000}) {
    std::size_t next = tensors.size();
    for (const Bucket& bucket : buckets_of(tensors, Grouping::buckets, bytes)) {
      for (const std::size_t tensor : bucket.tensors) EXPECT_EQ(tensor, --next);
      EXPECT_TRUE(bucket.tensors.size() == 1 || bucket.count * 4 <= bytes);
    }
    EXPECT_EQ(next, 0u);
  }
}

TEST(Buckets, RejectASizeBelowOneElement) { EXPECT_THROW(buckets_of(tensors_of({3}), Grouping::buckets, 3), Error); }

TEST(Strategies, AreFoundByName) {
  EXPECT_EQ(strategies().size(), 7u);
  for (const Strategy& strategy : strategies()) EXPECT_STREQ(strategy_of(strategy.name).name, strategy.name);
  try {
    strategy_of("fast");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "data parallel strategy fast; valid: naive, flat, overlap, bucketed, sharded, sharded-overlap, "
              "sharded-rs");
  }
}

}  // namespace
}  // namespace strobe::lm
