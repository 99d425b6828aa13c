// Tests bench/cudnn_peer without a GPU: how a case becomes a cuDNN problem, and errors before cuDNN is called.
// gpu_cudnn_test.cpp runs cuDNN.
#include "bench/cudnn_peer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "bench/row.h"
#include "bench/runner.h"
#include "device/device_info.h"

namespace strobe::bench {
namespace {

AttentionCase plain() {
  AttentionCase one{
      .batch = 2, .heads = 6, .kv_heads = 3, .seqlen_q = 40, .seqlen_k = 56, .head_dim = 64, .dtype = DType::bf16};
  one.device = Device::cuda;
  return one;
}

using Sizes = std::array<std::int64_t, 4>;

TEST(CudnnProblem, HasTheShapesAndStridesOfTheBench) {
  const CudnnProblem problem = cudnn_problem(plain());
  EXPECT_EQ(problem.dtype, DType::bf16);
  EXPECT_EQ(problem.q.shape, (Sizes{2, 6, 40, 64}));
  EXPECT_EQ(problem.q.stride, (Sizes{6 * 40 * 64, 40 * 64, 64, 1}));
  EXPECT_EQ(problem.k.shape, (Sizes{2, 3, 56, 64}));
  EXPECT_EQ(problem.k.stride, (Sizes{3 * 56 * 64, 56 * 64, 64, 1}));
  EXPECT_EQ(problem.v, problem.k);
  EXPECT_EQ(problem.o, problem.q);
  EXPECT_EQ(problem.lse.shape, (Sizes{2, 6, 40, 1}));
  EXPECT_EQ(problem.lse.stride, (Sizes{6 * 40, 40, 1, 1}));
  EXPECT_EQ(problem.scale, 0.125f);
}

TEST(CudnnProblem, TheMaskFollowsTheAlignment) {
  AttentionCase one = plain();
  EXPECT_EQ(cudnn_problem(one).mask, CudnnMask::none);
  one.causal = true;
  one.alignment = Alignment::top_left;
  EXPECT_EQ(cudnn_problem(one).mask, CudnnMask::causal_top_left);
  one.alignment = Alignment::bottom_right;
  EXPECT_EQ(cudnn_problem(one).mask, CudnnMask::causal_bottom_right);
  one.seqlen_k = one.seqlen_q;  // both alignments give the same mask
  EXPECT_EQ(cudnn_problem(one).mask, CudnnMask::causal_top_left);
  one.alignment = Alignment::unset;
  EXPECT_EQ(cudnn_problem(one).mask, CudnnMask::causal_top_left);
}

TEST(CudnnProblem, SavesStatisticsOnlyForABackward) {
  AttentionCase one = plain();
  EXPECT_TRUE(cudnn_problem(one).statistics);
  one.passes = Passes::backward;
  EXPECT_TRUE(cudnn_problem(one).statistics);
  one.passes = Passes::forward;
  EXPECT_FALSE(cudnn_problem(one).statistics);
}

std::string refusal(const AttentionCase& one) {
  try {
    CudnnPeer().predicted_bytes(one);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
    return error.what();
  }
  return "";
}

TEST(CudnnPeer, RejectsUnsupportedOptions) {
  AttentionCase one = plain();
  one.device = Device::cpu;
  EXPECT_EQ(refusal(one), "cudnn: device cpu; valid: cuda (--device cuda)");
  one = plain();
  one.dtype = DType::fp32;
  EXPECT_EQ(refusal(one), "cudnn: dtype fp32; valid: fp16, bf16");
  one = plain();
  one.window = {.left = 8, .right = -1};
  EXPECT_EQ(refusal(one), "cudnn: this peer does not support windows: 8:-1");
  one = plain();
  one.options.softcap = 30;
  EXPECT_EQ(refusal(one), "cudnn: this peer does not support score options, softcap 30");
  one = plain();
  one.options.lengths = {40, 3};
  EXPECT_EQ(refusal(one), "cudnn: this peer does not support score options, lengths 40,3");
  one = plain();
  one.deterministic = true;
  EXPECT_EQ(refusal(one), "cudnn: this peer does not support --deterministic");
  one = plain();
  one.seqlen_k = 0;
  EXPECT_NE(refusal(one).find("cudnn: an empty tensor: batch 2"), std::string::npos) << refusal(one);
}

TEST(CudnnPeer, OverflowingSizesAreInvalidArguments) {
  AttentionCase one = plain();
  one.batch = std::int64_t{1} << 60;
  try {
    CudnnPeer().predicted_bytes(one);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument) << error.what();
  }
}

// Returns true if this program was built with cuDNN: then the version of the cuDNN frontend is known.
bool in_the_build() {
  try {
    return !cudnn_frontend_version().empty();
  } catch (const Error&) {
    return false;
  }
}

TEST(CudnnPeer, NamesWhatToInstallIfTheBuildHasNoCudnn) {
  if (in_the_build()) GTEST_SKIP() << "this build has cuDNN";
  EXPECT_NE(refusal(plain()).find("cudnn: this build lacks"), std::string::npos) << refusal(plain());
  EXPECT_NE(refusal(plain()).find("pip install nvidia-cudnn-frontend"), std::string::npos) << refusal(plain());
}

TEST(CudnnPeer, NamesTheMissingLibrary) {
  if (!in_the_build()) GTEST_SKIP() << "this build has no cuDNN";
  if (gpu_inventory().reason.empty()) GTEST_SKIP() << "on a GPU the library may be open already";
  setenv("STROBE_CUDNN", "/nonexistent/libcudnn.so.9", 1);
  const std::string missing = refusal(plain());
  unsetenv("STROBE_CUDNN");
  EXPECT_NE(missing.find("cudnn: not found; install cuDNN 9"), std::string::npos) << missing;
  EXPECT_NE(missing.find("/nonexistent/libcudnn.so.9"), std::string::npos) << missing;
  EXPECT_NE(refusal(plain()).find("cudnn: "), std::string::npos);  // the reason is a missing GPU or library
}

TEST(CudnnPeer, IsAPeerForComparisons) {
  EXPECT_TRUE(is_peer("cudnn"));
  EXPECT_TRUE(is_peer("torch-cudnn"));
  EXPECT_FALSE(is_peer("flash2"));
  EXPECT_EQ(implementation_names().back(), "cudnn");
  EXPECT_EQ(make_implementation("cudnn", {.device = Device::cuda})->name(), "cudnn");
  std::vector<Row> rows(2);
  rows[0].implementation = "flash2";
  rows[1].implementation = "cudnn";
  for (Row& row : rows) row.forward.samples = {1e-3, 1e-3};
  EXPECT_NE(rows_table(rows, {}).find("vs cudnn"), std::string::npos) << rows_table(rows, {});
}

}  // namespace
}  // namespace strobe::bench
