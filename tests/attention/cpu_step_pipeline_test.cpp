// Compares software-pipelined forward steps (attention/cpu/step_pipeline.h) with the same steps run sequentially, on
// AMX, the only instruction set that pipelines them.
#include "attention/cpu/step_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/half.h"
#include "support/random.h"

namespace strobe::cpu {
namespace {

using test::Random;

constexpr int kPanels = 3, kBlocks = 4, kKeys = 160, kDim = 64;  // kKeys: keys per block
constexpr int kAllKeys = kBlocks * kKeys - 10;                   // the last block is not full

int keys_of(int block) { return std::min(kKeys, kAllKeys - block * kKeys); }

// Memory aligned as a workspace is.
class Buffer {
 public:
  explicit Buffer(std::int64_t bytes)
      : data_(static_cast<char*>(std::aligned_alloc(64, static_cast<std::size_t>(round_up(bytes, 64)))), std::free) {}
  char* bytes() { return data_.get(); }
  float* floats() { return reinterpret_cast<float*>(data_.get()); }

 private:
  std::unique_ptr<char, void (*)(void*)> data_;
};

// Packed K, V and Q of a row block. Scores of later key blocks are larger, so that the running maximum grows.
struct Operands {
  explicit Operands(const Isa& isa)
      : k(kBlocks * kKeys * kDim * isa.element),
        v(kBlocks * kKeys * kDim * isa.element),
        q(kPanels * isa.n * kDim * isa.element) {
    Random random(3);
    for (int b = 0; b < kBlocks; ++b) {
      const std::int64_t at = std::int64_t{b} * kKeys * kDim * isa.element;
      pack(isa, isa.pack_m, random, keys_of(b), kKeys, static_cast<float>(1 + b), k.bytes() + at);
      pack(isa, isa.pack_mt, random, keys_of(b), kKeys, 1, v.bytes() + at);
    }
    for (int p = 0; p < kPanels; ++p) pack(isa, isa.pack_n, random, isa.n, isa.n, 1, q_panel(isa, p));
  }
  char* q_panel(const Isa& isa, int p) { return q.bytes() + std::int64_t{p} * isa.n * kDim * isa.element; }

  Buffer k, v, q;

 private:
  static void pack(const Isa& isa, bool (*to)(const Pack&), Random& random, int count, int padded, float size,
                   void* out) {
    Buffer source(count * kDim * 4);
    std::vector<const void*> rows(static_cast<std::size_t>(padded), nullptr);
    for (int r = 0; r < count; ++r) {
      rows[static_cast<std::size_t>(r)] = source.bytes() + r * kDim * size_of(isa.compute);
    }
    for (int i = 0; i < count * kDim; ++i) store_element(source.bytes(), isa.compute, i, size * random.normal());
    ASSERT_FALSE(to({rows.data(), padded, kDim, isa.compute, 1, out}));
  }
};

// Results of a row block: O, and the maximum and sum of each lane.
struct Outcome {
  explicit Outcome(const Isa& isa)
      : o(static_cast<std::size_t>(kPanels * kDim * isa.n), 0.0f),
        max(static_cast<std::size_t>(kPanels * isa.n), -std::numeric_limits<float>::infinity()),
        sum(static_cast<std::size_t>(kPanels * isa.n), 0.0f) {}
  std::vector<float> o, max, sum;
};

// Returns a window of 250 keys per row, which slides from the first key to the last. A panel of rows sees blocks of
// keys whole, in part, or not at all.
std::vector<Lanes> lanes_of(const Isa& isa) {
  std::vector<Lanes> all(kPanels);
  for (int p = 0; p < kPanels; ++p) {
    Lanes& lanes = all[static_cast<std::size_t>(p)];
    lanes = {};
    lanes.count = isa.n;
    for (int lane = 0; lane < isa.n; ++lane) {
      lanes.hi[lane] = 1 + (p * isa.n + lane) * (kAllKeys - 1) / (kPanels * isa.n - 1);
      lanes.lo[lane] = std::max(0, lanes.hi[lane] - 250);
    }
    lanes.lo_min = lanes.lo[0];
    lanes.lo_max = lanes.lo[isa.n - 1];
    lanes.hi_min = lanes.hi[0];
    lanes.hi_max = lanes.hi[isa.n - 1];
  }
  return all;
}

template <class Push>
void for_each_step(const Isa& isa, const CpuScoreOptions& options, Operands& operands, const std::vector<Lanes>& lanes,
                   Outcome& outcome, Push push) {
  for (int b = 0; b < kBlocks; ++b) {
    ForwardStep step{};
    step.k = operands.k.bytes() + std::int64_t{b} * kKeys * kDim * isa.element;
    step.v = operands.v.bytes() + std::int64_t{b} * kKeys * kDim * isa.element;
    step.block_keys = kKeys;
    step.key_count = keys_of(b);
    step.key_begin = b * kKeys;
    step.d_steps = step.dv_rows = step.dv = kDim;
    step.options = &options;
    step.dtype = isa.compute;
    for (int p = 0; p < kPanels; ++p) {
      const int at = p * isa.n;
      push(step, StepPipeline::Panel{isa.forward_step, operands.q_panel(isa, p), &lanes[static_cast<std::size_t>(p)],
                                     outcome.o.data() + at * kDim, outcome.max.data() + at, outcome.sum.data() + at});
    }
  }
}

// bias: one value per key for all rows. The sixth row of each panel has a bias of -inf at every key instead.
void expect_same_as_steps(const Isa& isa, const CpuScoreOptions& options, const std::vector<float>& bias = {}) {
  Operands operands(isa);
  std::vector<Lanes> lanes = lanes_of(isa);
  const std::vector<float> lost(kAllKeys, -std::numeric_limits<float>::infinity());
  if (!bias.empty()) {
    for (Lanes& of_panel : lanes) {
      for (int lane = 0; lane < isa.n; ++lane) of_panel.bias[lane] = lane == 5 ? lost.data() : bias.data();
    }
  }
  Plan plan{};
  plan.isa = &isa;
  plan.element = isa.element;
  plan.block_keys = kKeys;
  plan.sum_chunk = kLongSumChunk;
  ASSERT_EQ(StepPipeline::copies(plan), 2);
  Buffer scores(2 * kKeys * isa.n * 4), probabilities(2 * kKeys * isa.n * isa.element), shrink(2 * isa.n * 4),
      largest(2 * isa.n * 4);

  const std::vector<char> memory(1024);  // prefetched in place of the tensors
  Prefetch prefetch{{memory.data(), memory.data(), memory.data(), memory.data()}, 0, 128, 960};
  Outcome pipelined(isa), sequential(isa);
  StepPipeline pipeline(plan, scores.floats(), probabilities.bytes(), shrink.floats(), largest.floats());
  for_each_step(isa, options, operands, lanes, pipelined, [&](ForwardStep step, const StepPipeline::Panel& panel) {
    step.prefetch = &prefetch;
    pipeline.push(step, panel);
  });
  pipeline.drain();
  EXPECT_LE(prefetch.at, prefetch.last);
  EXPECT_EQ(prefetch.at % 64, 0);
  for_each_step(isa, options, operands, lanes, sequential, [&](ForwardStep step, const StepPipeline::Panel& panel) {
    step.q = panel.q;
    step.lanes = panel.lanes;
    step.o = panel.o;
    step.max = panel.max;
    step.sum = panel.sum;
    step.scores = scores.floats();
    step.probabilities = probabilities.bytes();
    isa.forward_step(step);
  });

  EXPECT_EQ(pipelined.max, sequential.max);
  const float tolerance = isa.compute == DType::fp32 ? 1e-6f : 0x1p-8f;
  for (std::size_t i = 0; i < pipelined.sum.size(); ++i) {
    EXPECT_NEAR(pipelined.sum[i], sequential.sum[i], tolerance * sequential.sum[i]) << "lane " << i;
  }
  for (std::size_t i = 0; i < pipelined.o.size(); ++i) {  // relative to the sum of the lane's probabilities
    const std::size_t n = static_cast<std::size_t>(isa.n), lane = i / (n * kDim) * n + i % n;
    EXPECT_NEAR(pipelined.o[i], sequential.o[i], 8 * tolerance * sequential.sum[lane] * isa.boost) << "element " << i;
  }
}

class CpuStepPipeline : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    isa_ = find_isa("amx", GetParam());
    if (!isa_ || !isa_->forward_pipelined) GTEST_SKIP() << "no instruction set of this machine pipelines steps";
    options_.scale = options_.unit = 0.125f;
    options_.plain = true;
  }
  const Isa* isa_ = nullptr;
  CpuScoreOptions options_{};
};

TEST_P(CpuStepPipeline, EqualsSequentialSteps) { expect_same_as_steps(*isa_, options_); }

TEST_P(CpuStepPipeline, EqualsSequentialStepsWithSoftcap) {
  options_.plain = false;
  options_.softcap = options_.unit = 5;
  expect_same_as_steps(*isa_, options_);
}

// With ALiBi logits may have any magnitude, so the maximum is subtracted before scaling. All slopes are 0 here.
TEST_P(CpuStepPipeline, EqualsSequentialStepsWithAlibi) {
  options_.plain = false;
  options_.alibi = true;
  options_.unit = 1;
  expect_same_as_steps(*isa_, options_);
}

TEST_P(CpuStepPipeline, EqualsSequentialStepsWithBias) {
  options_.plain = false;
  options_.bias = true;
  options_.bias_dtype = DType::fp32;
  options_.unit = 1;
  Random random(4);
  std::vector<float> bias(kAllKeys);
  for (float& x : bias) x = 3 * random.normal();
  expect_same_as_steps(*isa_, options_, bias);
}

INSTANTIATE_TEST_SUITE_P(Types, CpuStepPipeline, ::testing::Values(DType::fp32, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace strobe::cpu
