// Tests that an accepted call reaches its kernel without operator new: only rejected calls format messages.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>

#include "attention/kernel.h"
#include "attention/small_problem.h"
#include "attention/validate.h"

namespace {
thread_local std::int64_t allocations = 0;
}

// Not inlined, because g++ would otherwise warn that memory from operator new is passed to free().
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace strobe {
namespace {

template <class Work>
std::int64_t allocations_of(const Work& work) {
  const std::int64_t before = allocations;
  work();
  return allocations - before;
}

TEST(AcceptedCall, AllocationsAreCounted) {
  EXPECT_EQ(allocations_of([] { ::operator delete(::operator new(100)); }), 1) << "the counter misses allocations";
}

TEST(AcceptedCall, ValidatesAndChoosesWithoutAllocation) {
  const test::SmallProblem small;
  EXPECT_EQ(allocations_of([&] {
              choose(validate_forward(small.attention, small.outputs, small.execution));
              choose(validate_backward(small.attention, small.inputs, small.gradients, small.execution));
            }),
            0);
}

// Runs the call that `strobe env` times, up to its launch. Needs no GPU.
TEST(AcceptedCall, ReachesHopperWithoutAllocation) {
  alignas(16) static std::uint16_t memory[8][2 * 256 * 64];
  static float lse[2 * 256];
  const auto tensor = [](int i) { return view_bhsd<void>(memory[i], DType::bf16, {1, 2, 256, 64}); };
  const Attention attention{.q = tensor(0), .k = tensor(1), .v = tensor(2), .causal = true};
  Problem problem = validate_backward(attention, {.o = tensor(3), .lse = lse, .d_o = tensor(4)},
                                      {.dq = tensor(5), .dk = tensor(6), .dv = tensor(7)}, {});
  problem.device = Device::cuda;
  problem.gpu = {90, 227 << 10, 132};
  for (const Kernel& kernel : kernels()) {
    if (!kernel.serves(problem) || kernel.name != std::string_view("hopper")) continue;
    if (const std::string refusal = kernel.plan(problem).refusal; !refusal.empty()) GTEST_SKIP() << refusal;
  }
  EXPECT_EQ(allocations_of([&] { EXPECT_GT(choose(problem).plan.workspace_bytes, 0u); }), 0);
}

}  // namespace
}  // namespace strobe
