// Tests the bench with PyTorch: results pass the correctness gate, and errors have reasons. Tests that need PyTorch run
// STROBE_PYTHON or python3 and are skipped if it lacks PyTorch. The others use tests/bench/stub_torch/torch.py.
#include "bench/torch_peer.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "bench/fake_python.h"
#include "bench/row.h"
#include "bench/runner.h"

namespace strobe::bench {
namespace {

AttentionCase small(DType dtype) {
  return {.batch = 2, .heads = 4, .kv_heads = 4, .seqlen_q = 70, .seqlen_k = 70, .head_dim = 32, .dtype = dtype};
}

struct Peer {
  std::string name;
  std::shared_ptr<PythonChild> python = std::make_shared<PythonChild>(120);
};

std::vector<Row> run(const Peer& peer, const AttentionCase& one) {
  Implementations implementations;
  implementations.push_back(std::make_unique<TorchPeer>(peer.name, peer.python));
  RunOptions options;
  options.rule.repeats = 2;
  return run_case(one, implementations, options);
}

TEST(TorchPeer, PassesTheGateAcrossCasesInOneChild) {
  const Peer peer{"torch-sdpa"};
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const bool causal : {false, true}) {
      AttentionCase one = small(dtype);
      one.causal = causal;
      const Row row = run(peer, one)[0];
      if (row.status == Status::unsupported) GTEST_SKIP() << row.reason;
      EXPECT_EQ(row.status, Status::ok) << row.reason;
      EXPECT_EQ(row.forward.samples.size(), 2u);
      EXPECT_NE(row.configuration.find("backend"), std::string::npos);
      EXPECT_GT(row.peak_bytes.value_or(1), 0);
    }
  }
  AttentionCase window = small(DType::fp32);
  window.window = {4, 4};
  EXPECT_EQ(run(peer, window)[0].status, Status::unsupported);
  AttentionCase softcap = small(DType::fp32);
  softcap.options.softcap = 5;
  const Row refused = run(peer, softcap)[0];
  EXPECT_EQ(refused.status, Status::unsupported);
  EXPECT_NE(refused.reason.find("softcap 5"), std::string::npos) << refused.reason;
  AttentionCase bias = small(DType::fp32);
  bias.options.bias = "1hqk";
  bias.options.bias_gradient = true;
  EXPECT_EQ(run(peer, bias)[0].status, Status::ok);
  EXPECT_EQ(run(peer, small(DType::fp32))[0].status, Status::ok);  // an error affects only its row
}

TEST(TorchPeer, NaiveSupportsMasksThatLeaveEveryRowAKey) {
  for (const char* name : {"torch-naive", "torch-compile"}) {
    const Peer peer{name};
    AttentionCase one = small(DType::fp32);
    one.seqlen_q = 9, one.seqlen_k = 14;
    one.causal = true, one.alignment = Alignment::bottom_right;
    one.window = {6, -1};
    const Row row = run(peer, one)[0];
    if (row.status == Status::unsupported) GTEST_SKIP() << row.reason;
    EXPECT_EQ(row.status, Status::ok) << row.reason;
    EXPECT_EQ(row.kernel, "matmul, softmax, matmul");
    const TensorBytes bytes = tensor_bytes(one);  // autograd also saves the fp32 probabilities [2, 4, 9, 14]
    EXPECT_GE(row.saved_bytes.value_or(INT64_MAX), bytes.inputs() + bytes.o + 4 * 2 * 4 * 9 * 14);
    EXPECT_LE(row.saved_bytes.value_or(0), row.peak_bytes.value_or(0));
    one.seqlen_k = 8;  // the first row has no key
    const Row refused = run(peer, one)[0];
    EXPECT_EQ(refused.status, Status::unsupported);
    EXPECT_NE(refused.reason.find("a row has no keys"), std::string::npos) << refused.reason;
  }
}

TEST(TorchPeer, NaiveSupportsScoreOptions) {
  AttentionCase one = small(DType::fp32);
  one.kv_heads = 2, one.causal = true;
  one.options = {.softcap = 5, .alibi = true, .bias = "b1qk", .bias_gradient = true};
  const Row row = run(Peer{"torch-naive"}, one)[0];
  if (row.status == Status::unsupported) GTEST_SKIP() << row.reason;
  EXPECT_EQ(row.status, Status::ok) << row.reason;
  EXPECT_FALSE(row.predicted_bytes);
}

// PyTorch has no backward of FlexAttention on the CPU, so only the forward is checked.
TEST(TorchPeer, FlexAttentionForwardPassesTheGate) {
  const Peer peer{"torch-flex"};
  AttentionCase one = small(DType::fp32);
  const Row both = run(peer, one)[0];
  if (both.reason.find("no PyTorch") != std::string::npos) GTEST_SKIP() << both.reason;
  EXPECT_EQ(both.status, Status::unsupported);
  EXPECT_NE(both.reason.find("no backward on a CPU; valid: --pass forward"), std::string::npos) << both.reason;
  one.passes = Passes::forward;
  one.kv_heads = 2, one.seqlen_k = 90;
  one.causal = true, one.alignment = Alignment::bottom_right;
  one.window = {40, -1};
  one.options = {.softcap = 5, .alibi = true, .bias = "1hqk"};
  const Row row = run(peer, one)[0];
  EXPECT_EQ(row.status, Status::ok) << row.reason;
  EXPECT_EQ(row.configuration.find("block mask") == std::string::npos, row.status != Status::ok) << row.configuration;
}

// Script that starts python3 with the stub instead of PyTorch.
const char kStubTorch[] = "#!/bin/sh\nPYTHONDONTWRITEBYTECODE=1 PYTHONPATH='" STROBE_SOURCE_DIR
                          "/tests/bench/stub_torch' exec python3 \"$@\"\n";

TEST(TorchPeer, PassesTheGateWithAStubOfPyTorch) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "no python3";
  const test::PythonScope stub(kStubTorch);
  const AttentionCase plain{
      .batch = 2, .heads = 2, .kv_heads = 2, .seqlen_q = 9, .seqlen_k = 9, .head_dim = 4, .dtype = DType::fp32};
  const std::int64_t tensor = 4 * 2 * 2 * 9 * 4;
  const Peer peer{"torch-sdpa"};
  for (const bool causal : {false, true}) {
    AttentionCase one = plain;
    one.causal = causal;
    const Row row = run(peer, one)[0];
    ASSERT_EQ(row.status, Status::ok) << row.reason;
    EXPECT_EQ(row.gate->comparisons.size(), 4u);  // O, dQ, dK, dV; there is no LSE
    EXPECT_EQ(row.both.samples.size(), 2u);
    EXPECT_EQ(row.peak_bytes.value_or(0), 4 * tensor + 150);
    EXPECT_EQ(row.saved_bytes.value_or(0), 3 * tensor + 50);  // allocated minus freed in the stub's events
    EXPECT_EQ(row.configuration.rfind("torch stub, python 3.", 0), 0u) << row.configuration;
    EXPECT_NE(row.configuration.find("backend FLASH_ATTENTION"), std::string::npos) << row.configuration;
  }
  AttentionCase forward = plain;
  forward.passes = Passes::forward;
  const Row row = run(peer, forward)[0];
  EXPECT_EQ(row.status, Status::ok) << row.reason;
  EXPECT_EQ(row.peak_bytes.value_or(0), 3 * tensor + 150);
  EXPECT_FALSE(row.saved_bytes);

  const auto refused = [](const Peer& who, const AttentionCase& one, Status status, const char* says) {
    const Row row = run(who, one)[0];
    EXPECT_EQ(row.status, status) << row.reason;
    EXPECT_NE(row.reason.find(says), std::string::npos) << row.reason;
  };
  AttentionCase window = plain;
  window.window = {4, 4};
  refused(peer, window, Status::unsupported, "torch-sdpa: this peer does not support window 4:4");
  refused(Peer{"fa3"}, plain, Status::unsupported,
          "module flash_attn_interface, flash_attn_3.flash_attn_interface or flash_attn_3 is missing");
  AttentionCase dropping = plain;  // the stub's outputs are zeros with dropout
  dropping.options.dropout = 0.5;
  const Row dropped = run(peer, dropping)[0];
  EXPECT_EQ(dropped.status, Status::ok) << dropped.reason;
  EXPECT_NE(dropped.configuration.find("checked without dropout"), std::string::npos) << dropped.configuration;
  EXPECT_EQ(row_json(dropped, {}).at("check").at("against").as_string(), "float64 without dropout");
  AttentionCase half = plain;
  half.dtype = DType::fp16;
  refused(peer, half, Status::crashed, "ValueError");  // an exception fails one row; the child process continues
  EXPECT_EQ(run(peer, plain)[0].status, Status::ok);
  AttentionCase large = plain;
  large.head_dim = 3;
  refused(peer, large, Status::oom, "can't allocate memory: you tried to allocate 4096 bytes");
  Implementations both;  // prepared in one Python process, then timed interleaved
  const auto python = std::make_shared<PythonChild>(60);
  for (const char* name : {"torch-sdpa", "torch-math"}) both.push_back(std::make_unique<TorchPeer>(name, python));
  RunOptions options;
  options.rule.repeats = 2;
  for (const Row& each : run_case(plain, both, options)) EXPECT_EQ(each.status, Status::ok) << each.reason;
  EXPECT_EQ(python->generation(), 1);
  const Peer flash{"torch-flash"};
  refused(flash, plain, Status::unsupported, "torch-flash is a backend of CUDA");
}

// The predicted peak memory must be within 5 % of the peak that PyTorch reaches on this CPU.
TEST(TorchPeer, PeakMemoryOfNaiveIsPredicted) {
  const Peer peer{"torch-naive"};
  for (const std::int64_t batch : {1, 2}) {
    AttentionCase one = small(DType::fp32);
    one.batch = batch, one.seqlen_q = one.seqlen_k = 512, one.head_dim = 64;
    const Row row = run(peer, one)[0];
    if (row.status == Status::unsupported) GTEST_SKIP() << row.reason;
    ASSERT_EQ(row.status, Status::ok) << row.reason;
    EXPECT_NEAR(static_cast<double>(row.peak_bytes.value()) / static_cast<double>(row.predicted_bytes.value()), 1,
                0.05);
  }
}

}  // namespace
}  // namespace strobe::bench
