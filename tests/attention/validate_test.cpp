// Tests the validator: the code and the one-line message of each error, and unusual arguments that are valid.
#include "attention/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "attention/refusal_list.h"
#include "attention/small_problem.h"
#include "device/device_info.h"
#include "device/host/thread_pool.h"

namespace strobe {
namespace {

using test::common_refusals;
using test::kLengths;
using test::pack;
using test::Refusal;
using test::shift;
using test::shifted;
using test::SmallProblem;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

void expect_refusal(const Refusal& refusal, const std::function<void()>& call) {
  SCOPED_TRACE(refusal.name);
  try {
    call();
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), refusal.code) << text;
    EXPECT_EQ(text.rfind("attention: ", 0), 0u) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    for (const char* part : refusal.texts) EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks " << part;
  }
}

TEST(Validate, AcceptsTheSmallProblem) {
  SmallProblem s;
  EXPECT_NO_THROW(s.forward());
  EXPECT_NO_THROW(s.backward());
}

TEST(Validate, ForwardRejectsInvalidArguments) {
  for (const Refusal& refusal : common_refusals()) {
    SmallProblem s;
    refusal.change(s);
    expect_refusal(refusal, [&] { s.forward(); });
  }
}

TEST(Validate, BackwardRejectsInvalidArguments) {
  for (const Refusal& refusal : common_refusals()) {
    SmallProblem s;
    refusal.change(s);
    expect_refusal(refusal, [&] { s.backward(); });
  }
}

// workspace_bytes() and explain() access no tensor, so they accept null pointers. All other errors are the same.
TEST(Validate, WorkspaceBytesAndExplainThrowTheSameErrors) {
  for (const Refusal& refusal : common_refusals()) {
    const std::string name = refusal.name;
    const bool about_memory = name.rfind("null ", 0) == 0 || name.rfind("workspace", 0) == 0 || name == "bias null";
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      SmallProblem s;
      refusal.change(s);
      if (about_memory) {
        s.execution.workspace = nullptr;
        s.execution.workspace_bytes = 0;
        EXPECT_NO_THROW(workspace_bytes(s.attention, pass, s.execution)) << name;
      } else {
        expect_refusal(refusal, [&] { workspace_bytes(s.attention, pass, s.execution); });
        expect_refusal(refusal, [&] { explain(s.attention, pass, s.execution); });
      }
    }
  }
  SmallProblem s;
  expect_refusal({"unknown pass", {}, {"unknown pass 3", "forward"}},
                 [&] { workspace_bytes(s.attention, static_cast<Pass>(3), s.execution); });
}

TEST(Validate, RejectsForwardOutputs) {
  const std::vector<Refusal> list{
      {"O shape", [](SmallProblem& s) { s.outputs.o.shape[3] = 8; }, {"O has shape [2, 4, 3, 8]", "[2, 4, 3, 6]"}},
      {"O absent", [](SmallProblem& s) { s.outputs.o = {}; }, {"O has shape [0, 0, 0, 0]", "[2, 4, 3, 6]"}},
      {"O null", [](SmallProblem& s) { s.outputs.o.data = nullptr; }, {"O is null", "[2, 4, 3, 6]"}},
      {"O misaligned", [](SmallProblem& s) { shift(s.outputs.o, 3); }, {"O at 0x", "4 bytes"}},
      {"O dtype", [](SmallProblem& s) { s.outputs.o.dtype = DType::bf16; }, {"O is bf16 but Q is fp32"}},
      {"O last stride", [](SmallProblem& s) { s.outputs.o.stride[3] = 0; }, {"O has stride 0", "must be 1"}},
      {"O expanded", [](SmallProblem& s) { s.outputs.o.stride[1] = 0; }, {"O of shape", "overlap", "heads stride 0"}},
      {"O overlapping rows",
       [](SmallProblem& s) { s.outputs.o.stride[2] = 5; },
       {"overlap", "sequence stride 5", "6 elements"}},
      {"O overlapping batch",
       [](SmallProblem& s) { s.outputs.o.stride[0] = -71; },
       {"overlap", "batch stride -71", "72 elements"}},
      {"LSE misaligned", [](SmallProblem& s) { s.outputs.lse = shifted(s.outputs.lse, 2); }, {"LSE at 0x", "4 bytes"}},
      {"O is Q",
       [](SmallProblem& s) { s.outputs.o.data = const_cast<void*>(s.attention.q.data); },
       {"O and Q are the same memory"}},
      {"LSE is O",
       [](SmallProblem& s) { s.outputs.lse = static_cast<float*>(s.outputs.o.data); },
       {"O and LSE are the same memory"}},
      {"LSE is K",
       [](SmallProblem& s) { s.outputs.lse = static_cast<float*>(const_cast<void*>(s.attention.k.data)); },
       {"LSE and K are the same memory"}},
      {"O from the second row of K on",
       [](SmallProblem& s) { s.outputs.o.data = static_cast<float*>(const_cast<void*>(s.attention.k.data)) + 8; },
       {"O and K overlap"}},
      {"O ends in the first element of V",
       [](SmallProblem& s) { s.outputs.o.data = static_cast<float*>(const_cast<void*>(s.attention.v.data)) - 143; },
       {"O and "}},
      {"LSE inside V",
       [](SmallProblem& s) { s.outputs.lse = static_cast<float*>(const_cast<void*>(s.attention.v.data)) + 90; },
       {"LSE and V overlap"}},
      {"O over the lengths",
       [](SmallProblem& s) {
         auto* const lengths = static_cast<std::int32_t*>(s.outputs.o.data) + 3;
         lengths[0] = lengths[1] = 2;
         s.attention.lengths_k = view_index(lengths, 2);
       },
       {"O and lengths_k overlap"}},
      {"workspace over Q",
       [](SmallProblem& s) {
         s.execution.kernel = "reference";
         auto address = reinterpret_cast<std::uintptr_t>(s.attention.q.data);
         s.execution.workspace = reinterpret_cast<void*>((address + 64) / 64 * 64);
         s.execution.workspace_bytes = std::size_t{1} << 20;
       },
       {"workspace and Q overlap"}},
      {"LSE is sinks",
       [](SmallProblem& s) {
         s.add_sinks();
         s.outputs.lse = const_cast<float*>(s.attention.sinks);
       },
       {"LSE and sinks are the same memory"}},
      {"LSE expanded",
       [](SmallProblem& s) {
         s.outputs.lse_stride = {0, 3, 1};
       },
       {"LSE of shape [2, 4, 3, 1]", "overlap", "batch stride 0"}},
      {"LSE strides without LSE",
       [](SmallProblem& s) {
         s.outputs.lse = nullptr, s.outputs.lse_stride = {12, 3, 1};
       },
       {"LSE has strides [12, 3, 1] but is null"}},
      {"strided LSE into Q",
       [](SmallProblem& s) {
         s.outputs.lse = static_cast<float*>(const_cast<void*>(s.attention.q.data)) - 8;
         s.outputs.lse_stride = {4, 8, 1};
       },
       {"LSE and Q overlap"}},
      {"O over the mask",
       [](SmallProblem& s) {
         s.attention.mask = view_mask(static_cast<char*>(s.outputs.o.data) + 5, {1, 1, 3, 5});
       },
       {"O and mask overlap"}},
      {"LSE over slopes of the second sequence",
       [](SmallProblem& s) {
         s.attention.alignment = Alignment::top_left;
         float* const values = s.array(64);
         s.attention.alibi_slopes = values;
         s.outputs.lse = values + 18;
         s.attention.alibi_batch_stride = 16;
       },
       {"LSE and alibi_slopes overlap"}},
  };
  for (const Refusal& refusal : list) {
    SmallProblem s;
    refusal.change(s);
    expect_refusal(refusal, [&] { s.forward(); });
  }
}

TEST(Validate, RejectsBackwardTensors) {
  const std::vector<Refusal> list{
      {"O shape", [](SmallProblem& s) { s.inputs.o.shape[1] = 2; }, {"O has shape [2, 2, 3, 6]", "[2, 4, 3, 6]"}},
      {"O null", [](SmallProblem& s) { s.inputs.o.data = nullptr; }, {"O is null"}},
      {"LSE null", [](SmallProblem& s) { s.inputs.lse = nullptr; }, {"LSE is null", "24 elements"}},
      {"LSE misaligned", [](SmallProblem& s) { s.inputs.lse = shifted(s.inputs.lse, 1); }, {"LSE at 0x"}},
      {"d_lse strides without d_lse",
       [](SmallProblem& s) {
         s.inputs.d_lse_stride = {12, 3, 1};
       },
       {"d_lse has strides [12, 3, 1] but is null"}},
      {"d_lse misaligned",
       [](SmallProblem& s) { s.inputs.d_lse = shifted(s.inputs.lse, 2); },
       {"d_lse at 0x", "4 bytes"}},
      {"dQ is d_lse",
       [](SmallProblem& s) { s.inputs.d_lse = static_cast<float*>(s.gradients.dq.data); },
       {"dQ and d_lse are the same memory"}},
      {"LSE strides wide",
       [](SmallProblem& s) {
         s.inputs.lse_stride = {kHuge, 3, 1};
       },
       {"LSE of shape [2, 4, 3, 1]", "2^56"}},
      {"dO shape", [](SmallProblem& s) { s.inputs.d_o.shape[2] = 4; }, {"dO has shape [2, 4, 4, 6]"}},
      {"dO null", [](SmallProblem& s) { s.inputs.d_o.data = nullptr; }, {"dO is null"}},
      {"dO dtype", [](SmallProblem& s) { s.inputs.d_o.dtype = DType::fp16; }, {"dO is fp16 but Q is fp32"}},
      {"dO last stride", [](SmallProblem& s) { s.inputs.d_o.stride[3] = 2; }, {"dO has stride 2", "1 or 0"}},
      {"dQ absent", [](SmallProblem& s) { s.gradients.dq = {}; }, {"dQ has shape [0, 0, 0, 0]", "[2, 4, 3, 8]"}},
      {"dK null", [](SmallProblem& s) { s.gradients.dk.data = nullptr; }, {"dK is null"}},
      {"dV shape", [](SmallProblem& s) { s.gradients.dv.shape[3] = 8; }, {"dV has shape [2, 2, 5, 8]", "[2, 2, 5, 6]"}},
      {"dK dtype", [](SmallProblem& s) { s.gradients.dk.dtype = DType::bf16; }, {"dK is bf16"}},
      {"dK expanded",
       [](SmallProblem& s) { s.gradients.dk.stride[0] = 0; },
       {"dK of shape", "batch stride 0", "overlap"}},
      {"dK is dQ",
       [](SmallProblem& s) { s.gradients.dk.data = s.gradients.dq.data; },
       {"dQ and dK are the same memory"}},
      {"dV reaches into dK",
       [](SmallProblem& s) { s.gradients.dv.data = static_cast<float*>(s.gradients.dk.data) + 159; },
       {"dK and dV overlap"}},
      {"dQ reaches into dO",
       [](SmallProblem& s) { s.gradients.dq.data = static_cast<float*>(const_cast<void*>(s.inputs.d_o.data)) + 1; },
       {"dQ and dO overlap"}},
      {"dK over O, backwards",
       [](SmallProblem& s) {
         s.gradients.dk.data = static_cast<float*>(const_cast<void*>(s.inputs.o.data)) + 33;
         s.gradients.dk.stride[2] = -8;
       },
       {"dK and O overlap"}},
      {"dbias over the end of bias",
       [](SmallProblem& s) {
         s.add_bias({1, 1, 3, 5});
         s.gradients.dbias.data = static_cast<float*>(const_cast<void*>(s.attention.bias.data)) + 14;
       },
       {"dbias and bias overlap"}},
      {"dV is dO",
       [](SmallProblem& s) { s.gradients.dv.data = const_cast<void*>(s.inputs.d_o.data); },
       {"dV and dO are the same memory"}},
      {"dQ is LSE",
       [](SmallProblem& s) { s.gradients.dq.data = const_cast<float*>(s.inputs.lse); },
       {"dQ and LSE are the same memory"}},
      {"dsinks is sinks",
       [](SmallProblem& s) {
         s.add_sinks();
         s.gradients.dsinks = const_cast<float*>(s.attention.sinks);
       },
       {"dsinks and sinks are the same memory"}},
      {"dsinks is dK",
       [](SmallProblem& s) {
         s.add_sinks();
         s.gradients.dsinks = static_cast<float*>(s.gradients.dk.data);
       },
       {"dK and dsinks are the same memory"}},
      {"dbias without bias",
       [](SmallProblem& s) {
         s.add_bias({1, 1, 1, 5});
         s.attention.bias = {};
       },
       {"dbias of shape [1, 1, 1, 5]", "bias is not"}},
      {"dbias dtype",
       [](SmallProblem& s) {
         s.add_bias({1, 1, 1, 5});
         s.gradients.dbias.dtype = DType::fp16;
       },
       {"dbias is fp16", "fp32"}},
      {"dbias shape",
       [](SmallProblem& s) {
         s.add_bias({1, 1, 1, 5});
         s.gradients.dbias.shape[0] = 2;
       },
       {"dbias has shape [2, 1, 1, 5] but bias has [1, 1, 1, 5]"}},
      {"dbias null",
       [](SmallProblem& s) {
         s.add_bias({1, 1, 1, 5});
         s.gradients.dbias.data = nullptr;
       },
       {"dbias is null"}},
      {"dbias overlapping",
       [](SmallProblem& s) {
         s.add_bias({1, 1, 3, 5});
         s.gradients.dbias.stride[2] = 4;
       },
       {"dbias of shape", "overlap"}},
      {"dsinks without sinks",
       [](SmallProblem& s) {
         s.add_sinks();
         s.attention.sinks = nullptr;
       },
       {"dsinks is given but sinks is not"}},
      {"dsinks misaligned",
       [](SmallProblem& s) {
         s.add_sinks();
         s.gradients.dsinks = shifted(s.gradients.dsinks, 1);
       },
       {"dsinks at 0x"}},
  };
  for (const Refusal& refusal : list) {
    SmallProblem s;
    refusal.change(s);
    expect_refusal(refusal, [&] { s.backward(); });
  }
}

TEST(Validate, RejectsASmallWorkspace) {
  SmallProblem s;
  alignas(64) static char memory[64];
  for (const char* kernel : {"standard", "frugal", "reference"}) {
    s.execution = {.kernel = kernel, .workspace = nullptr};
    const std::size_t needed = workspace_bytes(s.attention, Pass::backward, s.execution);
    ASSERT_GT(needed, 64u) << kernel;
    s.execution.workspace = memory;
    s.execution.workspace_bytes = 64;
    const std::string bytes = std::to_string(needed);
    expect_refusal({kernel, {}, {"workspace has 64 bytes", kernel, bytes.c_str()}}, [&] { s.backward(); });
  }
}

TEST(Validate, RejectsTf32OnTheCpu) {
  SmallProblem s;
  s.execution.tf32 = true;
  expect_refusal({"tf32", {}, {"tf32 is for fp32 on cuda", "fp32 on cpu"}}, [&] { s.forward(); });
}

TEST(Validate, RejectsCudaWithTheReason) {
  SmallProblem s;
  s.execution.device = Device::cuda;
  const std::string reason = gpu_inventory().reason;
  if (reason.empty()) GTEST_SKIP() << "this machine has a GPU";
  const Refusal refusal{"cuda", {}, {"device cuda", reason.c_str()}, ErrorCode::unsupported};
  expect_refusal(refusal, [&] { s.forward(); });
  expect_refusal(refusal, [&] { explain(s.attention, Pass::forward, s.execution); });
}

// For a packed batch, max_seqlen_q and max_seqlen_k replace the longest lengths, also as the shape of a bias.
TEST(Validate, BoundsOfPackedSequences) {
  SmallProblem s;
  pack(s);
  EXPECT_EQ(validate_query(s.attention, Pass::forward, {}).max_seqlen_q, 2);
  s.attention.max_seqlen_q = 3;
  s.attention.max_seqlen_k = 7;
  s.add_bias({2, 1, 3, 7});
  const Problem problem = validate_query(s.attention, Pass::backward, {});
  EXPECT_EQ(problem.max_seqlen_q, 3);
  EXPECT_EQ(problem.max_seqlen_k, 7);
  EXPECT_NO_THROW(s.forward());
  EXPECT_NO_THROW(s.backward());
}

TEST(Validate, FillsInDefaults) {
  SmallProblem s;
  const Problem problem = validate_forward(s.attention, s.outputs, s.execution);
  EXPECT_EQ(problem.scale, 1 / std::sqrt(8.0f));
  EXPECT_EQ(problem.threads, available_cores());
  EXPECT_EQ(problem.group, 2);
  EXPECT_EQ(problem.batch, 2);
  EXPECT_EQ(problem.max_seqlen_q, 3);
  EXPECT_EQ(problem.max_seqlen_k, 5);
  EXPECT_EQ(problem.dv, 6);
  EXPECT_FALSE(problem.packed);
  EXPECT_FALSE(problem.has_bias);
  EXPECT_FALSE(problem.masked());
  EXPECT_EQ(problem.alignment, Alignment::top_left);
}

TEST(Validate, AlignmentIsOptionalIfItHasNoEffect) {
  {
    SmallProblem s;
    s.make_square();
    s.attention.causal = true;
    EXPECT_NO_THROW(validate_query(s.attention, Pass::forward, {}));
    // One array for Q and K: each sequence has as many rows as keys.
    s.attention.lengths_q = s.attention.lengths_k = view_index(kLengths, 2);
    EXPECT_NO_THROW(validate_query(s.attention, Pass::forward, {}));
  }
  SmallProblem s;
  pack(s);
  s.attention.k.shape[2] = s.attention.v.shape[2] = 3;
  s.attention.cu_seqlens_k = s.attention.cu_seqlens_q;
  s.attention.causal = true;
  EXPECT_NO_THROW(validate_query(s.attention, Pass::forward, {}));
}

TEST(Validate, PackedBatch) {
  SmallProblem s;
  pack(s);
  const Problem problem = validate_backward(s.attention, s.inputs, s.gradients, s.execution);
  EXPECT_TRUE(problem.packed);
  EXPECT_EQ(problem.batch, 2);
  EXPECT_EQ(problem.max_seqlen_q, 2);
  EXPECT_EQ(problem.max_seqlen_k, 5);
  EXPECT_EQ(problem.total_q, 3);
  EXPECT_EQ(problem.extent(1).q_begin, 1);
  EXPECT_EQ(problem.extent(1).seqlen_k, 5);
  s.add_bias({2, 1, 2, 5});  // sequences, heads, max_seqlen_q, max_seqlen_k
  EXPECT_NO_THROW(validate_backward(s.attention, s.inputs, s.gradients, s.execution));
}

// The limit is max_seqlen_q + max_seqlen_k, 8 here.
TEST(Validate, AWindowSideAtTheLimitBecomesOpen) {
  SmallProblem s;
  s.attention.alignment = Alignment::bottom_right;
  s.attention.window = {kHuge, kHuge};
  EXPECT_FALSE(validate_query(s.attention, Pass::forward, {}).masked());
  s.attention.window = {7, 8};
  const Window window = validate_query(s.attention, Pass::forward, {}).window;
  EXPECT_EQ(window.left, 7);
  EXPECT_EQ(window.right, -1);
}

TEST(Validate, BroadcastBiasHasStrideZero) {
  SmallProblem s;
  s.add_bias({1, 4, 1, 5});
  s.attention.bias.stride = {kHuge, 5, -kHuge, 1};  // strides of dimensions of size 1 are unused
  const Problem problem = validate_backward(s.attention, s.inputs, s.gradients, s.execution);
  EXPECT_TRUE(problem.has_bias);
  EXPECT_TRUE(problem.wants_dbias);
  EXPECT_EQ(problem.bias.stride, (std::array<std::int64_t, 4>{0, 5, 0, 1}));
  EXPECT_EQ(problem.dbias.stride, (std::array<std::int64_t, 4>{0, 5, 0, 1}));
  EXPECT_TRUE(validate_query(s.attention, Pass::backward, {}).wants_dbias);
  EXPECT_FALSE(validate_query(s.attention, Pass::forward, {}).wants_dbias);
}

TEST(Validate, AcceptsExpandedAndReversedInputs) {
  SmallProblem s;
  s.attention.k.stride = {0, 0, 0, 1};
  s.inputs.d_o.stride = {0, 0, 0, 0};
  shift(s.attention.v, 4 * 4 * 6);  // the view starts at the last row of the first head and runs backwards
  s.attention.v.stride[2] = -6;
  const Problem problem = validate_backward(s.attention, s.inputs, s.gradients, s.execution);
  EXPECT_EQ(problem.k.stride, s.attention.k.stride);
  EXPECT_EQ(problem.d_o.stride, s.inputs.d_o.stride);
  EXPECT_EQ(problem.v.stride[2], -6);
}

TEST(Validate, SizeOneMayHaveAnyStride) {
  SmallProblem s;
  for (ConstView* view : {&s.attention.q, &s.attention.k, &s.attention.v}) view->shape = {1, 1, 1, 1};
  s.attention.q.stride = {kHuge, -kHuge - 1, kHuge, -3};
  s.outputs.o.shape = {1, 1, 1, 1};
  s.outputs.o.stride = {0, 0, 0, 17};
  const Problem problem = validate_forward(s.attention, s.outputs, s.execution);
  EXPECT_EQ(problem.q.stride, (std::array<std::int64_t, 4>{1, 1, 1, 1}));
  EXPECT_EQ(problem.o.stride, (std::array<std::int64_t, 4>{1, 1, 1, 1}));
  EXPECT_NO_THROW(s.forward());
}

TEST(Validate, OutputsMayInterleave) {  // dQ, dK, dV inside one tensor [B, S, 3, H, D]
  SmallProblem s;
  s.make_square();
  s.attention.v = s.tensor({2, 4, 3, 8});
  s.attention.k = s.tensor({2, 4, 3, 8});
  s.inputs.o = s.tensor({2, 4, 3, 8});
  s.inputs.d_o = s.tensor({2, 4, 3, 8});
  float* const fused = s.array(2 * 3 * 3 * 4 * 8);
  s.gradients.dq = view_packed_qkv<void>(fused, DType::fp32, {2, 4, 3, 8}, 0);
  s.gradients.dk = view_packed_qkv<void>(fused, DType::fp32, {2, 4, 3, 8}, 1);
  s.gradients.dv = view_packed_qkv<void>(fused, DType::fp32, {2, 4, 3, 8}, 2);
  EXPECT_NO_THROW(s.backward());
}

// Tensors without sequences, heads or rows are valid with any strides and null pointers, because nothing is read.
TEST(Validate, EmptyTensorsNeedNoMemory) {
  for (const std::array<std::int64_t, 4> shape :
       {std::array<std::int64_t, 4>{0, 4, 3, 8}, {2, 0, 3, 8}, {2, 4, 0, 8}}) {
    const View empty = {nullptr, DType::bf16, shape, {kHuge, kHuge, kHuge, -5}};
    Attention attention{.q = empty, .k = empty, .v = empty};
    EXPECT_NO_THROW(forward(attention, {.o = empty}));
    EXPECT_NO_THROW(backward(attention, {.o = empty, .d_o = empty}, {.dq = empty, .dk = empty, .dv = empty}));
    EXPECT_EQ(workspace_bytes(attention, Pass::backward), 0u);
    EXPECT_FALSE(explain(attention, Pass::forward).empty());
  }
}

}  // namespace
}  // namespace strobe
