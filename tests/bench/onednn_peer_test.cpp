// Tests the bench with oneDNN: results pass the correctness gate with every mask and with GQA, memory equals the
// prediction, and errors have reasons. A build without oneDNN must reject the implementation; the other tests are
// skipped.
#include "bench/onednn_peer.h"

#include <gtest/gtest.h>

#include "bench/runner.h"

namespace strobe::bench {
namespace {

AttentionCase onednn_case() {
  return {.batch = 2,
          .heads = 4,
          .kv_heads = 2,
          .seqlen_q = 70,
          .seqlen_k = 70,
          .head_dim = 24,
          .dtype = DType::fp32,
          .threads = 2};
}

Row run(const AttentionCase& one) {
  Implementations implementations;
  implementations.push_back(make_implementation(kOnednnPeer, {}));
  RunOptions options;
  options.rule.repeats = 2;
  return run_case(one, implementations, options)[0];
}

bool is_missing(const Row& row) { return row.reason.find("this build has no oneDNN 2; install") != std::string::npos; }

TEST(OnednnPeer, PassesTheGateWithEveryMask) {
  AttentionCase causal = onednn_case(), window = onednn_case(), corner = onednn_case(), forward = onednn_case();
  causal.causal = true;
  window.window = {7, 3};
  corner.causal = true, corner.seqlen_q = 9, corner.alignment = Alignment::bottom_right;
  forward.passes = Passes::forward;
  for (const AttentionCase& one : {onednn_case(), causal, window, corner, forward}) {
    const Row row = run(one);
    if (is_missing(row)) {
      EXPECT_EQ(row.status, Status::unsupported);
      GTEST_SKIP() << row.reason;
    }
    ASSERT_EQ(row.status, Status::ok) << row.reason;
    EXPECT_EQ(row.gate->comparisons.size(), has_backward(one.passes) ? 4u : 1u);
    EXPECT_EQ(row.peak_bytes.value_or(0), row.predicted_bytes.value_or(-1));
    const TensorBytes bytes = tensor_bytes(one);
    const std::int64_t mask =
        one.masked() ? 4 * 2 * one.seqlen_q * one.seqlen_k : 0;  // bytes: fp32, 2 heads of a group
    if (has_backward(one.passes)) {
      EXPECT_EQ(row.saved_bytes.value_or(0), bytes.inputs() + bytes.o + score_bytes(one) + mask);
    }
    EXPECT_EQ(row.configuration.rfind("oneDNN 2.", 0), 0u) << row.configuration;
  }
}

TEST(OnednnPeer, RejectsCasesWithAReason) {
  if (const Row row = run(onednn_case()); is_missing(row)) GTEST_SKIP() << row.reason;
  const auto refused = [](const AttentionCase& one, const char* says) {
    const Row row = run(one);
    EXPECT_EQ(row.status, Status::unsupported);
    EXPECT_NE(row.reason.find(says), std::string::npos) << row.reason;
  };
  AttentionCase softcap = onednn_case(), empty_row = onednn_case();
  softcap.options.softcap = 5;
  empty_row.seqlen_q = 80, empty_row.causal = true, empty_row.alignment = Alignment::bottom_right;
  refused(softcap, "score options, softcap 5");
  refused(empty_row, "row 0 has no keys");
}

}  // namespace
}  // namespace strobe::bench
