// Tests the guarantees of GPU calls: the same bits in every run, stream, thread and CUDA graph; no allocations; error
// messages that describe the problem.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <thread>

#include "core/half.h"
#include "device/device_info.h"
#include "device/gpu_allocator.h"
#include "device/gpu_buffer.h"
#include "support/compare.h"
#include "support/gpu.h"
#include "support/gpu_passes.h"
#include "support/selection.h"

namespace strobe::test {
namespace {

// Shapes for the different ways in which work is divided among thread blocks, as in determinism_test.cpp.
std::vector<Case> contract_shapes() {
  return {
      case_from("s700 d64 seed=11"),
      case_from("b2 h8/2 s130x190 d128 causal=bottom_right seed=12"),
      case_from("h2/1 s1x3000 d64 seed=13"),
      case_from("b3 h4/2 s150x270 d32 causal=top_left window=40:-1 softcap=5 alibi bias=111k sinks "
                "dropout=0.2 seed=14"),
      case_from("b2 h4/2 s150x400 d32 mask=b1qk first_keys=30,170 alibi alibi_batch align=top_left d_lse seed=21"),
      case_from("b4 h2/1 s200x290 d80/96 packed lengths_q=200,0,3,77 lengths_k=290,31,0,128 seed=16"),
  };
}

class GpuContract : public GpuTest {};

// Calls visit(passes, lane, description) for every kernel, type and shape, except those that the kernel refuses.
template <class Visit>
void for_all(const GpuRunOptions& options, Visit&& visit, const std::vector<Case>& cases = contract_shapes()) {
  GpuLane lane;
  for (const std::string& kernel : gpu_kernels()) {
    for (const DType dtype : kDTypes) {
      for (Case c : cases) {
        c.dtype = dtype;
        const Data data(c);
        GpuCase on_gpu(data, lane);
        if (!on_gpu.refusal(kernel).empty()) continue;
        GpuRunOptions with = options;
        with.kernel = kernel;
        GpuPasses passes(on_gpu, lane, with);
        visit(passes, lane, fmt::format("{}: {}", kernel, describe(c)));
      }
    }
  }
}

using Bytes = std::map<std::string, std::vector<char>>;

// Returns the name of the first output whose bytes differ; empty if none does. Without `deterministic`, skips dQ and
// dbias, which kernels sum in a different order in each run unless the option is set.
std::string first_difference(const Bytes& a, const Bytes& b, bool deterministic = true) {
  for (const auto& [name, bytes] : a) {
    if (!deterministic && (name == "dQ" || name == "dbias")) continue;
    if (bytes != b.at(name)) return name;
  }
  return "";
}

// Returns the number of bf16 elements that differ by more than a change of the summation order can cause.
std::size_t count_apart(const std::vector<char>& a, const std::vector<char>& b) {
  const auto at = [](const std::vector<char>& bytes, std::size_t element) {
    std::uint16_t bits;
    std::memcpy(&bits, &bytes[2 * element], sizeof(bits));
    return bf16_to_float(bits);
  };
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size() / 2; ++i) {
    const float one = at(a, i), other = at(b, i);
    count += !(std::abs(one - other) <= 0.02f * std::abs(one) + 0.005f);
  }
  return count;
}

TEST_F(GpuContract, RepeatsBitByBit) {
  const auto repeats = static_cast<int>(number_from("STROBE_TEST_REPEATS", 250));
  for (const bool deterministic : {true, false}) {
    for_all({.kernel = "", .deterministic = deterministic}, [&](GpuPasses& passes, GpuLane&, const std::string& what) {
      Bytes first;
      for (int i = 0; i < repeats; ++i) {
        if (i % 10 == 0) passes.poison();
        passes.launch();
        const Bytes again = passes.outputs();
        if (i == 0) first = again;
        ASSERT_EQ(first_difference(first, again, deterministic), "") << what << ", repetition " << i;
      }
    });
  }
}

TEST_F(GpuContract, GraphsReplayBitByBit) {
  const auto replays = [](GpuPasses& passes, GpuLane& lane, const std::string& what) {
    passes.poison();
    passes.launch();
    const Bytes plain = passes.outputs();
    const GpuGraph graph(lane.stream, [&] { passes.launch(); });
    for (int replay = 0; replay < 3; ++replay) {
      passes.poison();
      graph.launch(lane.stream);
      ASSERT_EQ(first_difference(plain, passes.outputs()), "") << what << ", replay " << replay;
    }
  };
  auto cases = contract_shapes();
  // More row tiles than the GPU has multiprocessors.
  cases.push_back(case_from("h560/4 s8x140 d64 seed=17"));
  for_all({.kernel = ""}, replays, cases);
}

// Blocks of a backward wait for each other: in the ordered accumulation of dQ, and until a sum of dQ is complete,
// before they round it. The test checks that no call deadlocks, with several tiles per multiprocessor and with fewer
// tiles than multiprocessors.
TEST_F(GpuContract, ThousandsOfBackwardsFinish) {
  const auto calls = static_cast<int>(number_from("STROBE_TEST_CALLS", 500));
  std::vector<Case> cases;
  for (const std::int64_t d : {64, 128, 256}) {
    cases.push_back(case_from("b4 h25 s512 d{} seed=18", d));
    cases.push_back(cases.back());
    cases.back().causal = true;
    cases.push_back(case_from("h4 s1000 d{} seed=18", d));  // too few tiles to fill the GPU
    cases.back().causal = true;
  }
  GpuLane lane;
  for (const std::string& kernel : gpu_kernels()) {
    for (Case& c : cases) {
      c.dtype = DType::bf16;
      const Data data(c);
      GpuCase on_gpu(data, lane);
      if (is_plain(kernel) || !on_gpu.refusal(kernel).empty()) continue;
      for (const bool deterministic : {true, false}) {
        GpuPasses passes(on_gpu, lane, {.kernel = kernel, .deterministic = deterministic});
        Bytes first;
        for (int i = 0; i < calls; ++i) {
          const bool compares = i % 100 == 0 || i + 1 == calls;
          if (compares || i % 5 == 0) passes.poison();
          passes.launch();
          if (!compares) continue;
          const Bytes outputs = passes.outputs();
          if (i == 0) first = outputs;
          ASSERT_EQ(first_difference(first, outputs, deterministic), "") << kernel << ": " << describe(c) << ", " << i;
          // A dQ that was rounded before its sum was complete would lack whole key tiles.
          ASSERT_EQ(count_apart(first.at("dQ"), outputs.at("dQ")), 0u) << kernel << ": " << describe(c) << ", " << i;
        }
      }
    }
  }
}

TEST_F(GpuContract, ThreadsOnSeparateStreamsGetTheSameBits) {
  for (const std::string& kernel : gpu_kernels()) {
    auto cases = contract_shapes();
    for (Case& c : cases) c.dtype = DType::bf16;
    std::vector<Bytes> alone(cases.size());
    const auto all_of = [&](std::size_t first, auto&& use) {
      GpuLane lane;
      for (std::size_t n = 0; n < 4 * cases.size(); ++n) {
        const std::size_t index = (first + n) % cases.size();
        const Data data(cases[index]);
        GpuCase on_gpu(data, lane);
        if (!on_gpu.refusal(kernel).empty()) continue;
        GpuPasses passes(on_gpu, lane, {.kernel = kernel});
        passes.poison();
        passes.launch();
        use(index, passes.outputs());
      }
    };
    all_of(0, [&](std::size_t index, Bytes bytes) { alone[index] = std::move(bytes); });
    std::vector<std::string> wrong(4);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        try {
          all_of(t, [&](std::size_t index, const Bytes& bytes) { wrong[t] += first_difference(alone[index], bytes); });
        } catch (const std::exception& error) {
          wrong[t] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& text : wrong) EXPECT_EQ(text, "") << kernel;
  }
}

// The first CUDA call of a new thread is a pass on the null stream.
TEST_F(GpuContract, NewThreadsMayStartWithAPassOnTheNullStream) {
  GpuLane lane;
  const auto synchronize_device = [] { const GpuBuffer freed(256); };  // cudaFree() waits for the whole device
  for (const std::string& kernel : gpu_kernels()) {
    for (const DType dtype : kDTypes) {
      const Case c = case_from("b2 h4 s256 d64 {} seed=19", name_of(dtype));
      const Data data(c);
      GpuCase on_gpu(data, lane);
      if (!on_gpu.refusal(kernel).empty()) continue;
      GpuPasses passes(on_gpu, lane, {.kernel = kernel});
      passes.launch();
      const Bytes first = passes.outputs();
      passes.poison();
      synchronize_device();
      std::string wrong;
      const auto in_a_new_thread = [&](auto&& pass) {
        std::thread([&] {
          try {
            pass();
          } catch (const std::exception& error) {
            wrong = error.what();
          }
        }).join();
      };
      in_a_new_thread([&] { passes.launch_forward(nullptr); });
      in_a_new_thread([&] { passes.launch_backward(nullptr); });
      synchronize_device();
      EXPECT_EQ(wrong, "") << kernel;
      EXPECT_EQ(first_difference(first, passes.outputs()), "") << kernel << ": " << describe(c);
    }
  }
}

// A thread must not reuse a cached tensor map when the same address holds a tensor of another shape.
TEST_F(GpuContract, ATensorMapIsNotReusedForAnotherShape) {
  constexpr std::size_t kElements = 2 * 512 * 64;
  std::vector<std::uint16_t> values(kElements);
  for (std::size_t i = 0; i < kElements; ++i) {
    values[i] = float_to_bf16(static_cast<float>(static_cast<int>(i * 7919 % 257) - 128) / 64);
  }
  GpuBuffer inputs[3];
  for (GpuBuffer& input : inputs) {
    input = GpuBuffer(kElements * 2);
    input.copy_from_host(values.data(), kElements * 2);
  }
  const auto outputs_of = [&](const Attention& attention) {
    GpuBuffer o(kElements * 2), workspace(1 << 20);
    View out{.data = o.data(), .dtype = DType::bf16, .shape = attention.q.shape, .stride = attention.q.stride};
    forward(attention, {.o = out},
            {.device = Device::cuda, .workspace = workspace.data(), .workspace_bytes = workspace.bytes()});
    std::vector<std::uint16_t> read(kElements);
    o.copy_to_host(read.data(), kElements * 2);
    return read;
  };
  const auto all_of = [&](auto&& view, bool in_one_place) {
    return Attention{.q = view(inputs[0]), .k = view(inputs[in_one_place ? 0 : 1]), .v = view(inputs[2])};
  };
  // The same address with other sizes and strides, and with TMA boxes of query rows and of keys.
  for (const std::array<std::int64_t, 4>& shape :
       {std::array<std::int64_t, 4>{1, 2, 512, 64}, {1, 1, 512, 128}, {2, 2, 256, 64}, {1, 4, 128, 128}}) {
    const auto heads_first = [&](const GpuBuffer& at) { return view_bhsd<const void>(at.data(), DType::bf16, shape); };
    const auto rows_first = [&](const GpuBuffer& at) { return view_bshd<const void>(at.data(), DType::bf16, shape); };
    for (const Attention& attention :
         {all_of(heads_first, false), all_of(rows_first, false), all_of(heads_first, true)}) {
      const std::vector<std::uint16_t> here = outputs_of(attention);
      std::vector<std::uint16_t> elsewhere;
      std::string wrong;
      std::thread([&] {
        try {
          elsewhere = outputs_of(attention);
        } catch (const std::exception& error) {
          wrong = error.what();
        }
      }).join();
      EXPECT_EQ(wrong, "");
      EXPECT_EQ(here, elsewhere) << fmt::format("[{}, {}, {}, {}]", shape[0], shape[1], shape[2], shape[3]);
    }
  }
}

TEST_F(GpuContract, PassesAllocateNothing) {
  for_all({.kernel = ""}, [](GpuPasses& passes, GpuLane&, const std::string& what) {
    passes.launch();
    passes.outputs();
    const auto counted = gpu_allocator().statistics().allocations;
    const std::size_t free = gpu_inventory().gpus.at(0).memory_free_bytes;
    passes.launch();
    passes.launch();
    EXPECT_EQ(gpu_allocator().statistics().allocations, counted) << what;
    EXPECT_EQ(gpu_inventory().gpus.at(0).memory_free_bytes, free) << what;
    passes.outputs();
  });
}

TEST_F(GpuContract, MissingWorkspaceIsAnErrorWithTheBytes) {
  const Data data(contract_shapes()[0]);
  GpuLane lane;
  GpuCase on_gpu(data, lane);
  const Execution execution{.device = Device::cuda, .kernel = "standard", .stream = lane.stream.handle()};
  const std::size_t bytes = workspace_bytes(on_gpu.attention(), Pass::forward, execution);
  ASSERT_GT(bytes, 0u);
  GpuBuffer o(700 * 64 * 4);
  try {
    forward(on_gpu.attention(), {.o = view_bhsd(o.data(), DType::fp32, {1, 1, 700, 64})}, execution);
    FAIL() << "ran without a workspace";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find(std::to_string(bytes)), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("workspace_bytes()"), std::string::npos) << error.what();
  }
}

// The workspace holds what FlashAttention-2's does: dQ in fp32 and one float (delta) per row. The head dimensions need
// no padding.
TEST_F(GpuContract, Flash2BackwardNeedsMemoryForDqSumAndDelta) {
  const std::int64_t batch = 2, heads = 4, length = 512;
  for (const DType dtype : {DType::fp16, DType::bf16}) {
    for (const std::int64_t d : {32, 64, 128}) {
      const ConstView view = view_bhsd<const void>(nullptr, dtype, {batch, heads, length, d});
      const Execution execution{.device = Device::cuda, .kernel = "flash2", .deterministic = false};
      EXPECT_EQ(workspace_bytes({.q = view, .k = view, .v = view}, Pass::backward, execution),
                static_cast<std::size_t>(4 * batch * heads * length * (d + 1)))
          << name_of(dtype) << ", head dimension " << d;
    }
  }
}

TEST_F(GpuContract, BiasAndMaskOfPackedSequencesNeedMaxSeqlenK) {
  for (const bool is_mask : {false, true}) {
    Case c = contract_shapes().back();
    c.bias = !is_mask;
    c.mask = is_mask, c.mask_shape = {true, false, false, true};
    const Data data(c);
    GpuLane lane;
    GpuCase on_gpu(data, lane);
    Attention attention = on_gpu.attention();
    EXPECT_NO_THROW(workspace_bytes(attention, Pass::backward, {.device = Device::cuda}));
    attention.max_seqlen_k = 0;
    EXPECT_THROW(workspace_bytes(attention, Pass::backward, {.device = Device::cuda}), Error);
  }
}

// The host does not read lengths in GPU memory, so the kernels clamp negative ones to 0 and larger ones to the
// size of the tensor.
TEST_F(GpuContract, LengthsBeyondTheTensorAreClamped) {
  for (const std::string& kernel : gpu_kernels()) {
    Case c = case_from("b3 h2 s40x70 d32 seed=3");
    c.lengths = Lengths::both;
    c.lengths_q = {40, 0, 17};
    c.lengths_k = {70, 33, 0};
    if (kernel != "hopper") c.first_keys = {70, 0, 0};
    GpuLane lane;
    const Data data(c);
    Case wild = c;
    wild.lengths_q = {1000000, -5, 17};
    wild.lengths_k = {71, 33, -2000000000};
    const std::vector<std::int32_t> q(wild.lengths_q.begin(), wild.lengths_q.end());
    const std::vector<std::int32_t> k(wild.lengths_k.begin(), wild.lengths_k.end());
    const std::vector<std::int32_t> first = {71, -1, 2000000000};
    GpuCase right(data, lane);
    if (!right.refusal(kernel).empty()) continue;
    GpuPasses expected(right, lane, {.kernel = kernel});
    expected.poison();
    expected.launch();
    const Bytes bytes = expected.outputs();
    lane.stream.copy(const_cast<void*>(right.attention().lengths_q.data), q.data(), 12);
    lane.stream.copy(const_cast<void*>(right.attention().lengths_k.data), k.data(), 12);
    if (!c.first_keys.empty()) {
      lane.stream.copy(const_cast<void*>(right.attention().first_keys.data), first.data(), 12);
    }
    expected.poison();
    expected.launch();
    EXPECT_EQ(first_difference(bytes, expected.outputs()), "") << kernel;
  }
}

TEST_F(GpuContract, NoRowsGiveZeroGradients) {
  GpuLane lane;
  constexpr std::int64_t kKeys = 5;
  GpuBuffer dk(2 * kKeys * 12 * 4), dv(2 * kKeys * 8 * 4);
  dk.fill(0x7fc0ffeeu), dv.fill(0x7fc0ffeeu);
  Attention attention;
  attention.q = view_bhsd<const void>(nullptr, DType::fp32, {2, 1, 0, 8});
  attention.k = view_bhsd<const void>(dk.data(), DType::fp32, {2, 1, kKeys, 8});
  attention.v = view_bhsd<const void>(dk.data(), DType::fp32, {2, 1, kKeys, 8});
  const View o = view_bhsd<void>(nullptr, DType::fp32, {2, 1, 0, 8});
  GpuBuffer k(2 * kKeys * 8 * 4);
  attention.k.data = attention.v.data = k.data();
  View strided = view_bhsd(dk.data(), DType::fp32, {2, 1, kKeys, 8});
  strided.stride = {kKeys * 12, kKeys * 12, 12, 1};
  const Execution execution{.device = Device::cuda, .stream = lane.stream.handle()};
  forward(attention, {.o = o}, execution);
  backward(attention, {.o = o, .d_o = o},
           {.dq = o, .dk = strided, .dv = view_bhsd(dv.data(), DType::fp32, {2, 1, kKeys, 8})}, execution);
  lane.stream.synchronize();
  std::vector<std::uint32_t> words(dk.bytes() / 4);
  dk.copy_to_host(words.data(), dk.bytes());
  for (std::size_t n = 0; n < words.size(); ++n) EXPECT_EQ(words[n], n % 12 < 8 ? 0u : 0x7fc0ffeeu) << n;
  dv.copy_to_host(words.data(), dv.bytes());
  for (std::size_t n = 0; n < dv.bytes() / 4; ++n) EXPECT_EQ(words[n], 0u) << n;
}

// A NaN reaches the rows that use it and perhaps others of its tile or head, but never another KV head.
TEST_F(GpuContract, NanStaysInItsKvHead) {
  GpuLane lane;
  for (const DType dtype : kDTypes) {
    Case c = case_from("b2 h4/2 s70x90 d64 seed=6");
    c.dtype = dtype;
    const Data clean(c);
    Data spoiled(c);
    spoiled.k.set(0, 1, 17, 5, std::numeric_limits<float>::quiet_NaN());
    spoiled.remember();
    for (const std::string& kernel : gpu_kernels()) {
      SCOPED_TRACE(kernel + " " + strobe::name_of(dtype));
      if (!GpuCase(clean, lane).refusal(kernel).empty()) continue;
      const Results expected = GpuCase(clean, lane).run({.kernel = kernel}).results;
      const Results results = GpuCase(spoiled, lane).run({.kernel = kernel}).results;
      for (const auto& [name, member] : kOutputs) {
        const auto& was = expected.*member;
        const auto& is = results.*member;
        const bool by_keys = member == &Results::dk || member == &Results::dv;
        const std::size_t heads = by_keys ? 4 : 8;  // KV heads or query heads of both sequences
        for (std::size_t i = 0; i < is.size(); ++i) {
          const std::size_t head = i / (is.size() / heads);
          const bool reached = by_keys ? head == 1 : head == 2 || head == 3;  // KV head 1 of the first sequence
          if (!reached) {
            ASSERT_EQ(is[i], was[i]) << name << "[" << i << "]";
          } else if (member == &Results::o || member == &Results::lse) {
            ASSERT_TRUE(std::isnan(is[i])) << name << "[" << i << "]";
          }
        }
      }
    }
  }
}

// A wild pointer makes one asynchronous call fail. The next call must report that an earlier call failed.
// Runs in a separate process, because CUDA is unusable afterwards.
TEST_F(GpuContract, FailureOfAnEarlierCallIsReportedAsSuch) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto provoke = [] {
    const Case c = case_from("s64 d64 seed=1");
    const Data data(c);
    GpuLane lane;
    GpuCase on_gpu(data, lane);
    GpuPasses good(on_gpu, lane, {.kernel = "standard"});
    good.launch();
    good.outputs();
    Attention wild = on_gpu.attention();
    wild.v.data = reinterpret_cast<const void*>(std::uintptr_t{1} << 45);
    GpuBuffer o(64 * 64 * 4), workspace(std::size_t{64} << 20);
    const Execution execution{.device = Device::cuda,
                              .kernel = "standard",
                              .stream = lane.stream.handle(),
                              .workspace = workspace.data(),
                              .workspace_bytes = workspace.bytes()};
    forward(wild, {.o = view_bhsd(o.data(), DType::fp32, {1, 1, 64, 64})}, execution);
    usleep(300000);
    try {
      good.launch();
      std::fputs("no error\n", stderr);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    std::fflush(stderr);
    _exit(0);
  };
  EXPECT_EXIT(provoke(), testing::ExitedWithCode(0), "an earlier CUDA call on this context failed");
}

}  // namespace
}  // namespace strobe::test
