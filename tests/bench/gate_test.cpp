// Tests that the correctness gate accepts results of the reference kernel and rejects each kind of wrong result.
#include "bench/gate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bench/kernel_implementation.h"
#include "core/half.h"

namespace strobe::bench {
namespace {

// Inputs, and outputs of the reference kernel, which a test may modify.
struct Outcome {
  AttentionCase one;
  Inputs inputs;
  KernelImplementation kernel{"reference"};
  Gate gate;

  explicit Outcome(const AttentionCase& description)
      : one(description), inputs(make_inputs(description, 3)), gate(description, inputs) {
    kernel.prepare(one, inputs);
    kernel.time(Region::forward);
    if (has_backward(one.passes)) kernel.time(Region::backward);
  }

  std::string fault() { return gate.check(kernel.results()).fault; }

  static void spoil(const ConstView& view, std::int64_t index, float value) {
    store_element(const_cast<void*>(view.data), view.dtype, index, value);
  }
};

AttentionCase small() {
  return {.batch = 2, .heads = 4, .kv_heads = 2, .seqlen_q = 70, .seqlen_k = 90, .head_dim = 24, .dtype = DType::fp32};
}

TEST(Gate, AcceptsRightResultsForEveryMaskAndType) {
  for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
    for (const Window window : {Window{-1, -1}, Window{9, 3}}) {
      for (const bool causal : {false, true}) {
        AttentionCase one = small();
        one.dtype = dtype;
        one.window = window;
        one.causal = causal;
        one.alignment = Alignment::bottom_right;
        Outcome run(one);
        EXPECT_EQ(run.fault(), "") << describe(one);
        EXPECT_GT(run.gate.rows(), 0);
        EXPECT_GT(run.gate.keys(), 0);
      }
    }
  }
}

std::vector<ScoreOptions> every_option() {
  return {{.softcap = 0.8},     {.alibi = true}, {.bias = "1hqk", .bias_gradient = true},
          {.bias = "b11k"},     {.sinks = true}, {.dropout = 0.25},
          {.lengths = {70, 31}}};
}

TEST(Gate, AcceptsRightResultsForEveryOption) {
  for (const ScoreOptions& options : every_option()) {
    for (const bool causal : {false, true}) {
      AttentionCase one = small();
      one.seqlen_k = one.seqlen_q;
      one.causal = causal;
      one.options = options;
      EXPECT_EQ(Outcome(one).fault(), "") << describe(one);
    }
  }
}

TEST(Gate, DetectsAnOptionThatWasIgnored) {
  AttentionCase plain = small();
  plain.seqlen_k = plain.seqlen_q;
  Outcome run(plain);
  for (const ScoreOptions& options : every_option()) {
    AttentionCase one = plain;
    one.options = options;
    const Inputs inputs = make_inputs(one, 3);  // Q, K, V of the unmodified case
    EXPECT_NE(Gate(one, inputs).check(run.kernel.results()).fault, "") << describe(one);
  }
}

TEST(Gate, AcceptsRowsWithoutKeysAndEmptyTensors) {
  AttentionCase one = small();
  one.seqlen_q = 90;
  one.seqlen_k = 70;
  one.causal = true;
  one.alignment = Alignment::bottom_right;
  EXPECT_EQ(Outcome(one).fault(), "");
  one.seqlen_k = 0;
  EXPECT_EQ(Outcome(one).fault(), "");
}

TEST(Gate, DetectsAWrongValueInEachTensor) {
  const AttentionCase one = small();
  const std::int64_t d = one.head_dim;
  for (const char* tensor : {"O", "dQ", "dK", "dV"}) {
    Outcome run(one);
    const Results results = run.kernel.results();
    const std::string name = tensor;
    Outcome::spoil(name == "O"    ? results.o
                   : name == "dQ" ? results.dq
                   : name == "dK" ? results.dk
                                  : results.dv,
                   d - 1, 50);
    EXPECT_NE(run.fault().find(name + " differs from"), std::string::npos) << run.fault();
  }
}

TEST(Gate, DetectsNanAnywhere) {
  Outcome run(small());
  const Results results = run.kernel.results();
  // The NaN is in dV of a row that the gate does not sample: all rows are checked for NaN, not only samples.
  Outcome::spoil(results.dv, results.dv.stride[0] - results.dv.stride[2] * 40, std::nanf(""));
  EXPECT_NE(run.fault().find("dV has NaN"), std::string::npos) << run.fault();
}

TEST(Gate, DetectsNanInGradientsOfOptions) {
  AttentionCase one = small();
  one.options = {.bias = "1hqk", .bias_gradient = true, .sinks = true};
  Outcome bias(one);
  Outcome::spoil(bias.kernel.results().dbias, 77, std::nanf(""));
  EXPECT_NE(bias.fault().find("dbias has NaN at element 77"), std::string::npos) << bias.fault();
  Outcome sinks(one);
  Outcome::spoil(sinks.kernel.results().dsinks, 3, std::nanf(""));
  EXPECT_NE(sinks.fault().find("dsinks has NaN at element 3 of 4"), std::string::npos) << sinks.fault();
}

TEST(Gate, DetectsAWrongMask) {
  AttentionCase one = small();
  one.seqlen_k = one.seqlen_q;
  Outcome full(one);
  one.causal = true;
  const Gate causal(one, full.inputs);
  EXPECT_NE(causal.check(full.kernel.results()).fault, "");
}

TEST(Gate, DetectsUnwrittenOutputs) {
  const AttentionCase one = small();
  const Inputs inputs = make_inputs(one, 3);
  const Gate gate(one, inputs);
  KernelImplementation kernel("reference");
  kernel.prepare(one, inputs);  // outputs remain poisoned, because no pass runs
  EXPECT_NE(gate.check(kernel.results()).fault, "");
}

}  // namespace
}  // namespace strobe::bench
