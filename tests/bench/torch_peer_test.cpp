// The real Python peer, where STROBE_PYTHON (or python3) has PyTorch: its results pass the gate, its refusals are
// reasons. Skipped with the reason where there is none.
#include "bench/torch_peer.h"

#include <gtest/gtest.h>

#include "bench/runner.h"

namespace strobe::bench {
namespace {

Case small(DType dtype) {
  return {.batch = 2, .heads = 4, .kv_heads = 4, .seq_q = 70, .seq_k = 70, .head_dim = 32, .dtype = dtype};
}

std::vector<Row> run(TorchPeer& peer, const Case& one) {
  struct Borrowed : Implementation {  // run_case owns what it measures; the child lives across cases
    TorchPeer& peer;
    explicit Borrowed(TorchPeer& p) : peer(p) {}
    std::string name() const override { return peer.name(); }
    std::string kernel() const override { return peer.kernel(); }
    std::string configuration() const override { return peer.configuration(); }
    std::optional<std::int64_t> predicted_bytes(const Case& one) override { return peer.predicted_bytes(one); }
    void prepare(const Case& one, const Inputs& inputs) override { peer.prepare(one, inputs); }
    void release() override { peer.release(); }
    double time(Region region) override { return peer.time(region); }
    Results results() override { return peer.results(); }
    std::optional<std::int64_t> metered_bytes() override { return peer.metered_bytes(); }
    void settle() override { peer.settle(); }
  };
  Implementations implementations;
  implementations.push_back(std::make_unique<Borrowed>(peer));
  RunOptions options;
  options.rule.repeats = 2;
  return run_case(one, implementations, options);
}

TEST(TorchPeer, PassesTheGateAcrossCasesInOneChild) {
  TorchPeer peer("torch-sdpa", 120);
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const bool causal : {false, true}) {
      Case one = small(dtype);
      one.causal = causal;
      const Row row = run(peer, one)[0];
      if (row.status == Status::unsupported) GTEST_SKIP() << row.reason;
      EXPECT_EQ(row.status, Status::ok) << row.reason;
      EXPECT_EQ(row.forward.samples.size(), 2u);
      EXPECT_NE(row.configuration.find("backend"), std::string::npos);
      EXPECT_GT(row.peak_bytes.value_or(1), 0);
    }
  }
  Case window = small(DType::fp32);
  window.window = {4, 4};
  EXPECT_EQ(run(peer, window)[0].status, Status::unsupported);
  Case softcap = small(DType::fp32);
  softcap.options.softcap = 5;
  const Row refused = run(peer, softcap)[0];
  EXPECT_EQ(refused.status, Status::unsupported);
  EXPECT_NE(refused.reason.find("softcap 5"), std::string::npos) << refused.reason;
  EXPECT_EQ(run(peer, small(DType::fp32))[0].status, Status::ok);  // a refusal costs its row only
}

}  // namespace
}  // namespace strobe::bench
