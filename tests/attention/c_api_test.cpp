// Tests the C ABI end to end: results equal those of the C++ API, every failure is a status and a one-line message, and
// structs can grow.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "attention/c_struct.h"
#include "attention/small_problem.h"
#include "device/device_info.h"
#include "strobe/strobe.h"
#include "support/corpus.h"
#include "support/fuzz_c_api.h"

namespace strobe {
namespace {

using test::SmallProblem;

template <class To, class From>
To c_view(const From& from) {
  To to{from.data, static_cast<int32_t>(from.dtype), {}, {}};
  std::copy(from.shape.begin(), from.shape.end(), to.shape);
  std::copy(from.stride.begin(), from.stride.end(), to.stride);
  return to;
}

strobe_const_view c_input(const ConstView& from) { return c_view<strobe_const_view>(from); }
strobe_view c_output(const View& from) { return c_view<strobe_view>(from); }

// A SmallProblem as structs of the C ABI.
struct Twin {
  strobe_attention attention;
  strobe_forward_outputs outputs{};
  strobe_backward_inputs inputs{};
  strobe_gradients gradients{};
  strobe_execution execution;

  explicit Twin(const SmallProblem& s) {
    EXPECT_EQ(strobe_attention_init(&attention, sizeof attention), STROBE_OK);
    EXPECT_EQ(strobe_execution_init(&execution, sizeof execution), STROBE_OK);
    attention.q = c_input(s.attention.q);
    attention.k = c_input(s.attention.k);
    attention.v = c_input(s.attention.v);
    outputs = {sizeof outputs, c_output(s.outputs.o), s.outputs.lse, {}};
    inputs = {sizeof inputs, c_input(s.inputs.o), s.inputs.lse, c_input(s.inputs.d_o), {}, nullptr, {}};
    gradients = {sizeof gradients,         c_output(s.gradients.dq),    c_output(s.gradients.dk),
                 c_output(s.gradients.dv), c_output(s.gradients.dbias), s.gradients.dsinks};
  }
};

std::string last_error() { return strobe_last_error(); }

TEST(CApi, VersionAndNames) {
  EXPECT_STREQ(strobe_version(), STROBE_VERSION_STRING);
  EXPECT_EQ(strobe_abi_version(), STROBE_ABI_VERSION);
  EXPECT_STREQ(strobe_status_name(STROBE_OK), "ok");
  EXPECT_STREQ(strobe_status_name(STROBE_INVALID_ARGUMENT), "invalid_argument");
  EXPECT_STREQ(strobe_status_name(STROBE_UNSUPPORTED), "unsupported");
  EXPECT_STREQ(strobe_status_name(STROBE_OUT_OF_MEMORY), "out_of_memory");
  EXPECT_STREQ(strobe_status_name(STROBE_RUNTIME), "runtime");
  EXPECT_STREQ(strobe_status_name(static_cast<strobe_status>(99)), "unknown");
}

TEST(CApi, ViewsEqualThoseOfCpp) {
  float data = 0;
  const auto same = [](const auto& c, const auto& cpp) {
    return c.data == cpp.data && c.dtype == static_cast<int32_t>(cpp.dtype) &&
           std::equal(cpp.shape.begin(), cpp.shape.end(), c.shape) &&
           std::equal(cpp.stride.begin(), cpp.stride.end(), c.stride);
  };
  EXPECT_TRUE(same(strobe_bhsd(&data, STROBE_BF16, 2, 3, 5, 7), view_bhsd<void>(&data, DType::bf16, {2, 3, 5, 7})));
  EXPECT_TRUE(same(strobe_bshd(&data, STROBE_FP16, 2, 3, 5, 7), view_bshd<void>(&data, DType::fp16, {2, 3, 5, 7})));
  EXPECT_TRUE(
      same(strobe_const_bhsd(&data, STROBE_FP32, 2, 3, 5, 7), view_bhsd<const void>(&data, DType::fp32, {2, 3, 5, 7})));
  EXPECT_TRUE(
      same(strobe_const_bshd(&data, STROBE_FP32, 2, 3, 5, 7), view_bshd<const void>(&data, DType::fp32, {2, 3, 5, 7})));
}

// Sets every option of a padded batch in ABI version 1. Both passes must give the same bits as the C++ API.
TEST(CApi, OptionsOfVersion1ReachTheKernels) {
  SmallProblem cpp;
  for (std::size_t i = 0; i < cpp.memory.size(); ++i) cpp.memory[i] = static_cast<float>((i * 37) % 101) / 64 - 0.75f;
  static const std::int64_t lengths_q[2] = {3, 2};
  static const std::int32_t lengths_k[2] = {4, 5};
  cpp.add_bias({1, 4, 3, 5});
  cpp.add_sinks();
  float* const slopes = cpp.array(4);
  cpp.attention.alibi_slopes = slopes;
  cpp.attention.scale = 0.4f;
  cpp.attention.causal = true;
  cpp.attention.alignment = Alignment::bottom_right;
  cpp.attention.window = {3, 1};
  cpp.attention.softcap = 2.5f;
  cpp.attention.dropout = {.p = 0.2f, .seed = 77};
  cpp.attention.lengths_q = view_index(lengths_q, 2);
  cpp.attention.lengths_k = view_index(lengths_k, 2);

  Twin c(cpp);
  strobe_attention& a = c.attention;
  a.bias = c_input(cpp.attention.bias);
  a.sinks = cpp.attention.sinks;
  a.alibi_slopes = slopes;
  a.scale_given = 1;
  a.scale = 0.4f;
  a.causal = 1;
  a.alignment = STROBE_BOTTOM_RIGHT;
  a.window_left = 3;
  a.window_right = 1;
  a.softcap = 2.5f;
  a.dropout_p = 0.2f;
  a.dropout_seed = 77;
  a.lengths_q = {lengths_q, 64, 2};
  a.lengths_k = {lengths_k, 32, 2};

  for (const char* kernel : {"flash2", "frugal", "standard", "reference"}) {
    const std::vector<float> before = cpp.memory;
    cpp.execution = {.kernel = kernel, .threads = 2};
    cpp.forward();
    cpp.backward();
    std::vector<float> expected = cpp.memory;
    std::memcpy(cpp.memory.data(), before.data(), before.size() * sizeof(float));
    c.execution.kernel = kernel;
    c.execution.threads = 1;
    ASSERT_EQ(strobe_forward(&c.attention, &c.outputs, &c.execution), STROBE_OK) << last_error();
    ASSERT_EQ(strobe_backward(&c.attention, &c.inputs, &c.gradients, &c.execution), STROBE_OK) << last_error();
    EXPECT_EQ(std::memcmp(cpp.memory.data(), expected.data(), expected.size() * sizeof(float)), 0) << kernel;
    EXPECT_NE(std::memcmp(before.data(), expected.data(), expected.size() * sizeof(float)), 0) << kernel;
    std::memcpy(cpp.memory.data(), before.data(), before.size() * sizeof(float));
  }
}

// Sets the fields that were added after ABI version 1, except the executor and the allocator (executor_test.cpp). Both
// passes must give the same bits as the C++ API.
TEST(CApi, LaterFieldsReachTheKernels) {
  SmallProblem cpp;
  for (std::size_t i = 0; i < cpp.memory.size(); ++i) cpp.memory[i] = static_cast<float>((i * 37) % 101) / 64 - 0.75f;
  static const unsigned char mask[15] = {1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1};
  static const std::int32_t first_keys[2] = {0, 2};
  static const std::uint64_t seed = 99;
  cpp.attention.mask = view_mask(mask, {1, 1, 3, 5});
  cpp.attention.alignment = Alignment::bottom_right;
  cpp.attention.alibi_slopes = cpp.array(9);
  cpp.attention.alibi_batch_stride = 5;
  cpp.attention.first_keys = view_index(first_keys, 2);
  cpp.attention.dropout = {.p = 0.25f, .seed = 0, .seed_data = &seed};
  cpp.outputs.lse = cpp.array(30);
  cpp.outputs.lse_stride = {15, 1, 5};
  cpp.inputs.lse = cpp.outputs.lse;
  cpp.inputs.lse_stride = cpp.outputs.lse_stride;
  cpp.inputs.d_lse = cpp.array(24);
  cpp.inputs.d_lse_stride = {12, 1, 4};

  Twin c(cpp);
  c.attention.mask = {mask, {1, 1, 3, 5}, {15, 15, 5, 1}};
  c.attention.alignment = STROBE_BOTTOM_RIGHT;
  c.attention.alibi_slopes = cpp.attention.alibi_slopes;
  c.attention.alibi_batch_stride = 5;
  c.attention.first_keys = {first_keys, 32, 2};
  c.attention.dropout_p = 0.25f;
  c.attention.dropout_seed_data = &seed;
  std::copy_n(cpp.outputs.lse_stride.begin(), 3, c.outputs.lse_stride);
  std::copy_n(cpp.inputs.lse_stride.begin(), 3, c.inputs.lse_stride);
  c.inputs.d_lse = cpp.inputs.d_lse;
  std::copy_n(cpp.inputs.d_lse_stride.begin(), 3, c.inputs.d_lse_stride);

  for (const char* kernel : {"flash2", "frugal", "standard", "reference"}) {
    const std::vector<float> before = cpp.memory;
    cpp.execution = {.kernel = kernel, .threads = 2};
    cpp.forward();
    cpp.backward();
    const std::vector<float> expected = cpp.memory;
    const auto bytes = before.size() * sizeof(float);
    std::memcpy(cpp.memory.data(), before.data(), bytes);
    c.execution.kernel = kernel;
    ASSERT_EQ(strobe_forward(&c.attention, &c.outputs, &c.execution), STROBE_OK) << last_error();
    ASSERT_EQ(strobe_backward(&c.attention, &c.inputs, &c.gradients, &c.execution), STROBE_OK) << last_error();
    EXPECT_EQ(std::memcmp(cpp.memory.data(), expected.data(), bytes), 0) << kernel;
    std::memcpy(cpp.memory.data(), before.data(), bytes);
  }
  c.execution.kernel = "standard";
  c.execution.batch_invariant = 1;
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, &c.execution), STROBE_UNSUPPORTED);
  EXPECT_NE(last_error().find("batch_invariant"), std::string::npos) << last_error();
}

TEST(CApi, PackedSequencesAndDefaultExecution) {
  static const std::int32_t offsets_q[3] = {0, 1, 3};
  static const std::int32_t offsets_k[3] = {0, 4, 5};
  SmallProblem s;
  for (ConstView* view : {&s.attention.q, &s.attention.k, &s.attention.v}) view->shape[0] = 1;
  s.outputs.o.shape[0] = 1;
  Twin c(s);
  c.attention.cu_seqlens_q = {offsets_q, 32, 3};
  c.attention.cu_seqlens_k = {offsets_k, 32, 3};
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, nullptr), STROBE_OK) << last_error();
  EXPECT_NEAR(static_cast<float*>(s.outputs.o.data)[0], 0.25f, 1e-6f);  // average of equal values
  c.attention.cu_seqlens_k.count = 2;
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, nullptr), STROBE_INVALID_ARGUMENT);
  EXPECT_EQ(last_error(), "attention: cu_seqlens_q has count 3 but cu_seqlens_k has 2");
}

TEST(CApi, FailuresAreAStatusAndAMessage) {
  SmallProblem s;
  Twin c(s);
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, &c.execution), STROBE_OK);
  c.attention.k.shape[3] = 7;
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, &c.execution), STROBE_INVALID_ARGUMENT);
  EXPECT_EQ(last_error(), "attention: K has head_dim 7 but Q has 8");
  EXPECT_EQ(strobe_backward(&c.attention, &c.inputs, &c.gradients, &c.execution), STROBE_INVALID_ARGUMENT);
  c.attention.k.shape[3] = 8;
  c.attention.scale_given = 1;
  c.attention.scale = std::numeric_limits<float>::infinity();
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, &c.execution), STROBE_INVALID_ARGUMENT);
  EXPECT_EQ(last_error(), "attention: scale is inf; it must be finite");
  c.attention.scale = 1;
  c.attention.q.dtype = 12;
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, &c.execution), STROBE_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("unknown dtype 12"), std::string::npos);
  c.attention.q.dtype = STROBE_FP32;
  c.execution.kernel = "nothing";
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, &c.execution), STROBE_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("'nothing'"), std::string::npos);
  c.execution.kernel = nullptr;
  if (!gpu_inventory().gpus.empty()) return;
  c.execution.device = STROBE_CUDA;
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, &c.execution), STROBE_UNSUPPORTED);
  EXPECT_NE(last_error().find("device cuda"), std::string::npos);
}

TEST(CApi, Tf32ReachesTheLibrary) {
  SmallProblem s;
  Twin c(s);
  c.execution.tf32 = 1;
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, &c.execution), STROBE_INVALID_ARGUMENT);
  EXPECT_EQ(last_error(), "attention: tf32 is for fp32 on cuda; this is fp32 on cpu");
}

TEST(CApi, KernelNamesAreQuotedPrintably) {
  SmallProblem s;
  Twin c(s);
  c.execution.kernel = "a\n\x1b[31m";
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, &c.execution), STROBE_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("'a\\x0a\\x1b[31m'"), std::string::npos) << last_error();
}

TEST(CApi, LongMessagesAreTruncated) {
  SmallProblem s;
  Twin c(s);
  const std::string name(5000, 'x');
  c.execution.kernel = name.c_str();
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, &c.execution), STROBE_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("xxx..."), std::string::npos) << last_error();
  EXPECT_LT(last_error().size(), 300u);
}

// Runs `frugal`, which stores the scores of at least one head: here 2^56 floats, more than any memory. Q, K and V have
// stride 0 along the sequence. The allocation fails before any output is accessed, so O may be too small.
TEST(CApi, OutOfMemoryIsAStatus) {
  SmallProblem s;
  Twin c(s);
  constexpr std::int64_t kLong = std::int64_t{1} << 28;
  for (strobe_const_view* view : {&c.attention.q, &c.attention.k, &c.attention.v}) {
    view->shape[2] = kLong;
    view->stride[2] = 0;
  }
  c.outputs.o = strobe_bhsd(s.outputs.o.data, STROBE_FP32, 2, 4, kLong, 6);
  c.outputs.lse = nullptr;  // it would overlap O
  c.execution.kernel = "frugal";
  size_t bytes = 0;
  ASSERT_EQ(strobe_workspace_bytes(&c.attention, STROBE_PASS_FORWARD, &c.execution, &bytes), STROBE_OK) << last_error();
  EXPECT_GE(bytes, std::size_t{1} << 58);
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, &c.execution), STROBE_OUT_OF_MEMORY);
  EXPECT_NE(last_error().find(std::to_string(bytes)), std::string::npos) << last_error();
}

TEST(CApi, NullPointersAndUnknownPassesAreRejected) {
  SmallProblem s;
  Twin c(s);
  size_t bytes = 0;
  EXPECT_EQ(strobe_attention_init(nullptr, sizeof(strobe_attention)), STROBE_INVALID_ARGUMENT);
  EXPECT_EQ(strobe_execution_init(nullptr, sizeof(strobe_execution)), STROBE_INVALID_ARGUMENT);
  EXPECT_EQ(strobe_forward(nullptr, &c.outputs, nullptr), STROBE_INVALID_ARGUMENT);
  EXPECT_EQ(last_error(), "attention: strobe_attention is null");
  EXPECT_EQ(strobe_forward(&c.attention, nullptr, nullptr), STROBE_INVALID_ARGUMENT);
  EXPECT_EQ(strobe_backward(&c.attention, nullptr, &c.gradients, nullptr), STROBE_INVALID_ARGUMENT);
  EXPECT_EQ(strobe_backward(&c.attention, &c.inputs, nullptr, nullptr), STROBE_INVALID_ARGUMENT);
  EXPECT_EQ(strobe_workspace_bytes(&c.attention, 0, nullptr, nullptr), STROBE_INVALID_ARGUMENT);
  EXPECT_EQ(strobe_workspace_bytes(nullptr, 0, nullptr, &bytes), STROBE_INVALID_ARGUMENT);
  EXPECT_EQ(strobe_explain(&c.attention, 0, nullptr, nullptr, 10, nullptr), STROBE_INVALID_ARGUMENT);
  EXPECT_EQ(strobe_explain(&c.attention, 7, nullptr, nullptr, 0, nullptr), STROBE_INVALID_ARGUMENT);
}

TEST(CApi, StructsMayGrow) {
  SmallProblem s;
  Twin c(s);
  c.attention.size = 8;
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, nullptr), STROBE_INVALID_ARGUMENT);
  EXPECT_NE(last_error().find("strobe_attention has size 8"), std::string::npos) << last_error();
  c.attention.size = offsetof(strobe_attention, mask) - 1;  // smaller than in version 1, the first
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, nullptr), STROBE_INVALID_ARGUMENT);
  c.attention.size = 0;  // never initialized
  EXPECT_EQ(strobe_forward(&c.attention, &c.outputs, nullptr), STROBE_INVALID_ARGUMENT);

  struct Newer {
    strobe_attention known;
    int64_t unknown;
  } newer;
  EXPECT_EQ(strobe_attention_init(&newer.known, sizeof newer), STROBE_OK);
  EXPECT_EQ(newer.unknown, 0);
  EXPECT_EQ(newer.known.window_left, -1);
  newer.known.q = c.attention.q;
  newer.known.k = c.attention.k;
  newer.known.v = c.attention.v;
  EXPECT_EQ(strobe_forward(&newer.known, &c.outputs, nullptr), STROBE_OK) << last_error();
  newer.unknown = 5;
  EXPECT_EQ(strobe_forward(&newer.known, &c.outputs, nullptr), STROBE_UNSUPPORTED);
  EXPECT_EQ(strobe_attention_init(&newer.known, 16), STROBE_INVALID_ARGUMENT);
}

// `Second` is a library struct that has gained the field `added`; `First` is the struct of an older caller.
TEST(CApi, OlderCallersWorkAfterAFieldWasAdded) {
  struct First {
    std::size_t size;
    std::int64_t a;
  };
  struct Second {
    std::size_t size;
    std::int64_t a, added;
  };
  const StructAge age{"thing", sizeof(First)};
  const First old{sizeof(First), 7};
  Second known = read_struct(reinterpret_cast<const Second*>(&old), age);
  EXPECT_EQ(known.a, 7);
  EXPECT_EQ(known.added, 0);
  known = read_struct(std::array{Second{sizeof(Second), 7, 8}}.data(), age);
  EXPECT_EQ(known.added, 8);
  EXPECT_THROW(read_struct(std::array{First{sizeof(First) - 1, 7}}.data(), age), Error);
  EXPECT_THROW(read_struct(std::array{First{kMaxStruct + 1, 7}}.data(), age), Error);

  First fresh{0, 5};
  clear_struct(reinterpret_cast<Second*>(&fresh), sizeof(First), age);  // writes at most the caller's size
  EXPECT_EQ(fresh.size, sizeof(First));
  EXPECT_EQ(fresh.a, 0);
}

TEST(CApi, CallerProvidesTheWorkspace) {
  SmallProblem s;
  Twin c(s);
  c.execution.kernel = "reference";
  size_t bytes = 0;
  ASSERT_EQ(strobe_workspace_bytes(&c.attention, STROBE_PASS_BACKWARD, &c.execution, &bytes), STROBE_OK);
  EXPECT_EQ(bytes, workspace_bytes(s.attention, Pass::backward, {.kernel = "reference"}));
  std::vector<char> memory(bytes + 64);
  c.execution.workspace = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  c.execution.workspace_bytes = bytes;
  EXPECT_EQ(strobe_backward(&c.attention, &c.inputs, &c.gradients, &c.execution), STROBE_OK) << last_error();
  c.execution.workspace_bytes = bytes - 1;
  EXPECT_EQ(strobe_backward(&c.attention, &c.inputs, &c.gradients, &c.execution), STROBE_INVALID_ARGUMENT);
}

TEST(CApi, ExplainFillsTheCallersBuffer) {
  SmallProblem s;
  Twin c(s);
  size_t needed = 0;
  ASSERT_EQ(strobe_explain(&c.attention, STROBE_PASS_FORWARD, nullptr, nullptr, 0, &needed), STROBE_OK);
  ASSERT_GT(needed, 20u);
  std::vector<char> whole(needed), part(10, 'x');
  ASSERT_EQ(strobe_explain(&c.attention, STROBE_PASS_FORWARD, nullptr, whole.data(), needed, nullptr), STROBE_OK);
  const std::string text = whole.data();
  EXPECT_EQ(text.size() + 1, needed);
  for (const char* name : {"flash2: ", "frugal: ", "standard: ", "reference: ", "chosen"}) {
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
  ASSERT_EQ(strobe_explain(&c.attention, STROBE_PASS_FORWARD, nullptr, part.data(), part.size(), &needed), STROBE_OK);
  EXPECT_EQ(needed, whole.size());
  EXPECT_EQ(part.data(), text.substr(0, 9));
}

TEST(CApi, KernelNamesOfADevice) {
  size_t needed = 0;
  ASSERT_EQ(strobe_kernel_names(STROBE_CPU, nullptr, 0, &needed), STROBE_OK);
  std::vector<char> whole(needed);
  ASSERT_EQ(strobe_kernel_names(STROBE_CPU, whole.data(), needed, nullptr), STROBE_OK);
  std::string expected;
  for (const std::string& name : kernel_names(Device::cpu)) expected += name + "\n";
  EXPECT_EQ(whole.data(), expected);
  EXPECT_EQ(needed, expected.size() + 1);
  EXPECT_EQ(strobe_kernel_names(7, whole.data(), needed, nullptr), STROBE_INVALID_ARGUMENT);
  EXPECT_EQ(last_error(), "attention: device is 7; valid: 0 (CPU), 1 (CUDA)");
  EXPECT_EQ(strobe_kernel_names(STROBE_CPU, nullptr, 3, nullptr), STROBE_INVALID_ARGUMENT);
}

TEST(CApi, ErrorsArePerThread) {
  EXPECT_EQ(strobe_forward(nullptr, nullptr, nullptr), STROBE_INVALID_ARGUMENT);
  const std::string mine = strobe_last_error();
  std::string fresh = "?", theirs;
  std::thread other([&] {
    fresh = strobe_last_error();
    strobe_attention attention;
    strobe_attention_init(&attention, 3);
    theirs = strobe_last_error();
  });
  other.join();
  EXPECT_EQ(fresh, "");
  EXPECT_NE(theirs, mine);
  EXPECT_EQ(strobe_last_error(), mine);
}

// Replays the seeds of the fuzz harness.
TEST(CApiFuzz, SeedsBreakNoRule) { EXPECT_FALSE(test::accepted_seeds("c_api", test::fuzz_c_api).empty()); }

TEST(CApiFuzz, RandomDescriptionsAreRejectedOrComputed) {
  std::mt19937 random(11);
  int computed = 0;
  std::vector<std::uint8_t> bytes(200);
  for (int round = 0; round < 3000; ++round) {
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
    computed += test::fuzz_c_api(bytes.data(), bytes.size()) ? 1 : 0;
  }
  EXPECT_GT(computed, 100);
}

}  // namespace
}  // namespace strobe
