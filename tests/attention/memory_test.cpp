// Tests the memory that a pass needs besides inputs and outputs: workspace_bytes() and the counting allocator's peak.
// Neither may grow with Sq * Sk. `standard`, which stores the scores, shows that the measurements can fail.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "attention/cpu/plan.h"
#include "attention/kernel.h"
#include "attention/validate.h"
#include "device/host/allocator.h"
#include "support/check.h"
#include "support/isa_scope.h"
#include "support/run.h"
#include "support/sanitized.h"

namespace strobe::test {
namespace {

constexpr std::size_t kMegabyte = 1 << 20;

// Returns one head with s rows and s keys, without data, for workspace_bytes().
Attention bare(DType dtype, std::int64_t s, std::int64_t d) {
  const void* none = nullptr;
  const ConstView view = view_bhsd(none, dtype, {1, 1, s, d});
  return {.q = view, .k = view, .v = view};
}

// Returns the workspace bytes of a forward plus a backward, for a caller that keeps both workspaces.
std::size_t both_passes(const Attention& attention, const Execution& execution) {
  return workspace_bytes(attention, Pass::forward, execution) + workspace_bytes(attention, Pass::backward, execution);
}

TEST(Memory, LongSequenceStaysUnderLimit) {
  for (const std::string& isa : available_isas()) {
    const IsaScope scope(isa);
    for (const DType dtype : kDTypes) {
      for (const int threads : {1, 2, 3, 4, 8, 12, 16}) {
        EXPECT_LT(both_passes(bare(dtype, 65536, 64), {.kernel = "flash2", .threads = threads}), 64 * kMegabyte)
            << isa << " " << strobe::name_of(dtype) << ", " << threads << " threads";
      }
    }
  }
}

// Runs the problem of LongSequenceStaysUnderLimit and measures its memory with the counting allocator. The window keeps
// the run short and does not change the workspace size.
TEST(Memory, LongSequenceRunsUnderLimit) {
  for (const DType dtype : kSanitized ? std::vector{DType::fp32} : std::vector{DType::fp32, DType::bf16}) {
    const Case c = case_from("s65536 d64 {} window={}:0 seed=5", name_of(dtype), kSanitized ? 0 : 8);
    const Data data(c);
    const Attention attention = data.attention();
    Tensor o = make_tensor({dtype, data.shape_o(), Layout::bhsd, 0});
    std::vector<float> lse(static_cast<std::size_t>(c.sq));
    Tensor dq = make_tensor({dtype, data.shape_q(), Layout::bhsd, 0});
    Tensor dk = make_tensor({dtype, data.shape_k(), Layout::bhsd, 0});
    Tensor dv = make_tensor({dtype, data.shape_v(), Layout::bhsd, 0});
    Execution execution{.kernel = "flash2", .threads = 2};
    host_allocator().reset_peak();
    const std::size_t before = host_allocator().statistics().current;
    const Buffer for_forward(workspace_bytes(attention, Pass::forward, execution));
    execution.workspace = for_forward.data();
    execution.workspace_bytes = for_forward.bytes();
    forward(attention, {.o = o.view, .lse = lse.data()}, execution);
    const Buffer for_backward(workspace_bytes(attention, Pass::backward, execution));
    execution.workspace = for_backward.data();
    execution.workspace_bytes = for_backward.bytes();
    backward(attention, {.o = o.view, .lse = lse.data(), .d_o = data.d_o.view},
             {.dq = dq.view, .dk = dk.view, .dv = dv.view}, execution);
    EXPECT_LT(host_allocator().statistics().peak - before, 64 * kMegabyte) << strobe::name_of(dtype);
  }
}

// With this many rows the backward does not keep packed Q and dO. With this many keys the forward does not keep packed
// K and V. The results must be as exact as those of smaller problems.
TEST(Memory, ResultsAreExactIfOperandsAreNotKeptPacked) {
  const Data both_passes_long(case_from("h2/1 s9300x12600 d256 align=top_left window=6:2 seed=8"));
  if (kSanitized) {  // the sanitizer detects memory errors without the oracle
    EXPECT_EQ(run(both_passes_long, {.kernel = "flash2", .threads = 2, .own_workspace = true}).complaint, "");
    return;
  }
  check(both_passes_long, Kernels::isolating);
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    check(Data(case_from("h18/1 s500 d256 {} causal window=20:-1 seed=6", name_of(dtype))), Kernels::isolating);
  }
}

// A call reads STROBE_CPU_ISA once: the run uses the instruction set for which the workspace was sized.
TEST(Memory, InstructionSetIsResolvedOnce) {
  const Problem problem = [] {
    const IsaScope scope("generic");
    return validate_query(bare(DType::bf16, 4096, 64), Pass::backward, {.threads = 1});
  }();
  for (const std::string& isa : available_isas()) {
    const IsaScope scope(isa);
    EXPECT_STREQ(cpu::make_plan(problem).isa->name, "generic") << isa;
  }
}

// Memory for computing dsinks is needed only if dsinks are requested.
TEST(Memory, SinksCostNothingWithoutTheirGradient) {
  const Case c = case_from("h2 s700 d32 sinks seed=7");
  const Data data(c);
  Problem problem = validate_query(data.attention(), Pass::backward, {.threads = 1});
  const std::size_t with = choose(problem, "flash2").plan.workspace_bytes;
  problem.wants_dsinks = false;
  EXPECT_LT(choose(problem, "flash2").plan.workspace_bytes, with);
}

TEST(Memory, GrowsAtMostLinearlyWithTheSequence) {
  for (const DType dtype : kDTypes) {
    for (const bool causal : {false, true}) {
      const auto bytes = [&](const char* kernel, std::int64_t s) {
        Attention attention = bare(dtype, s, 64);
        attention.causal = causal;
        return static_cast<double>(both_passes(attention, {.kernel = kernel, .threads = 2}));
      };
      EXPECT_LE(bytes("flash2", 131072), 2.05 * bytes("flash2", 65536)) << strobe::name_of(dtype);
      EXPECT_LE(bytes("flash2", 65536), 4.1 * bytes("flash2", 16384)) << strobe::name_of(dtype);
      EXPECT_GE(bytes("standard", 65536), 15 * bytes("standard", 16384)) << strobe::name_of(dtype);
    }
  }
}

// A pass allocates exactly workspace_bytes(), and nothing if the caller provides the workspace.
TEST(Memory, PassesAllocateExactlyWorkspaceBytes) {
  for (const DType dtype : kDTypes) {
    const Case c = case_from("s{} d64 {} seed=3", kSanitized ? 512 : 2048, name_of(dtype));
    const Data data(c);
    const Attention attention = data.attention();
    Tensor o = make_tensor({dtype, data.shape_o(), Layout::bhsd, 0});
    std::vector<float> lse(static_cast<std::size_t>(c.sq));
    Tensor dq = make_tensor({dtype, data.shape_q(), Layout::bhsd, 0});
    Tensor dk = make_tensor({dtype, data.shape_k(), Layout::bhsd, 0});
    Tensor dv = make_tensor({dtype, data.shape_v(), Layout::bhsd, 0});
    for (const bool provides_workspace : {false, true}) {
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        Execution execution{.kernel = "flash2", .threads = 2};
        const std::size_t promised = workspace_bytes(attention, pass, execution);
        Buffer own(provides_workspace ? promised : 0);
        execution.workspace = own.data();
        execution.workspace_bytes = own.bytes();
        host_allocator().reset_peak();
        const std::size_t before = host_allocator().statistics().current;
        if (pass == Pass::forward) {
          forward(attention, {.o = o.view, .lse = lse.data()}, execution);
        } else {
          backward(attention, {.o = o.view, .lse = lse.data(), .d_o = data.d_o.view},
                   {.dq = dq.view, .dk = dk.view, .dv = dv.view}, execution);
        }
        const AllocationStatistics after = host_allocator().statistics();
        EXPECT_EQ(after.peak - before, provides_workspace ? 0 : promised) << strobe::name_of(dtype);
        EXPECT_EQ(after.current, before);
        EXPECT_LT(promised, 32 * kMegabyte);
        if (!kSanitized) {
          EXPECT_LT(promised, static_cast<std::size_t>(c.sq * c.sk) * size_of(dtype))
              << "the workspace has room for all scores";
        }
      }
    }
  }
}

// Returns the process's peak resident memory since the last call, in bytes; 0 if the operating system cannot reset it.
std::size_t peak_resident_then_reset() {
  std::size_t kilobytes = 0;
  if (std::FILE* status = std::fopen("/proc/self/status", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, status)) std::sscanf(line, "VmHWM: %zu", &kilobytes);
    std::fclose(status);
  }
  std::FILE* clear = std::fopen("/proc/self/clear_refs", "w");
  if (!clear) return 0;
  const bool written = std::fputs("5", clear) >= 0;
  return std::fclose(clear) == 0 && written ? kilobytes * 1024 : 0;
}

// Checks without the allocator that the process does not grow by anything of size Sq x Sk.
TEST(Memory, ProcessDoesNotGrowByTheScores) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own memory is part of the process";
  if (peak_resident_then_reset() == 0) GTEST_SKIP() << "this system does not reset the peak of resident memory";
  const Case c = case_from("s4096 d32 seed=4");
  const Data data(c);
  const std::size_t scores = static_cast<std::size_t>(c.sq * c.sk) * sizeof(float);
  const auto growth = [&](const char* kernel) {
    malloc_trim(0);  // otherwise memory freed by earlier tests would be reused
    peak_resident_then_reset();
    const std::size_t before = peak_resident_then_reset();
    (void)run(data, {.kernel = kernel, .threads = 2});
    // May be negative: the reset sets the peak to the current resident size, which is slightly below the peak just
    // read.
    return static_cast<double>(peak_resident_then_reset()) - static_cast<double>(before);
  };
  EXPECT_LT(growth("flash2"), 0.5 * static_cast<double>(scores));
  EXPECT_GT(growth("standard"), 0.9 * static_cast<double>(scores));
}

}  // namespace
}  // namespace strobe::test
