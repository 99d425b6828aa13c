// Tests that the bits of a row depend neither on the width of its panel nor on the other rows of the panel. This holds
// only if there are few keys: more keys are summed in chunks whose boundaries depend on all keys that the panel sees.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strobe/attention.h"
#include "support/isa_scope.h"
#include "support/random.h"

namespace strobe::test {
namespace {

constexpr int kDim = 20;

std::vector<float> normal_rows(Random& random, int rows) {
  std::vector<float> values(static_cast<std::size_t>(rows) * kDim);
  for (float& value : values) value = random.normal();
  return values;
}

struct Answer {
  std::vector<float> o, lse;
};

struct Keys {
  int count;
  bool causal;
};

Answer attend(int rows, const Keys& keys) {
  Random of_keys(7), of_rows(8);
  const std::vector<float> k = normal_rows(of_keys, keys.count), v = normal_rows(of_keys, keys.count);
  const std::vector<float> q = normal_rows(of_rows, rows);
  Answer answer{std::vector<float>(q.size()), std::vector<float>(static_cast<std::size_t>(rows))};
  const auto in = [](const std::vector<float>& of, std::int64_t count) {
    return view_bhsd<const void>(of.data(), DType::fp32, {1, 1, count, kDim});
  };
  Attention attention{.q = in(q, rows), .k = in(k, keys.count), .v = in(v, keys.count)};
  attention.causal = keys.causal;
  attention.alignment = Alignment::top_left;
  forward(attention, {.o = view_bhsd<void>(answer.o.data(), DType::fp32, {1, 1, rows, kDim}), .lse = answer.lse.data()},
          {.kernel = "flash2", .threads = 1});
  return answer;
}

class CpuPanels : public testing::TestWithParam<Keys> {};

TEST_P(CpuPanels, GiveARowTheSameResult) {
  for (const std::string& isa : available_isas()) {
    const IsaScope scope(isa);
    const Answer most = attend(64, GetParam());
    for (int rows = 1; rows < 64; ++rows) {
      const Answer some = attend(rows, GetParam());
      const std::size_t elements = some.o.size();
      EXPECT_EQ(some.o, std::vector<float>(most.o.begin(), most.o.begin() + static_cast<std::ptrdiff_t>(elements)))
          << isa << ", " << rows << " rows";
      EXPECT_EQ(some.lse, std::vector<float>(most.lse.begin(), most.lse.begin() + rows))
          << isa << ", " << rows << " rows";
    }
  }
}

// Some kernels compute maxima during the matmul if all lanes see all keys of whole tiles.
INSTANTIATE_TEST_SUITE_P(Keys, CpuPanels, testing::Values(Keys{45, false}, Keys{48, false}, Keys{48, true}),
                         [](const auto& info) {
                           return std::to_string(info.param.count) + (info.param.causal ? "_causal" : "_full");
                         });

}  // namespace
}  // namespace strobe::test
