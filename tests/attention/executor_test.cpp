// Tests an executor and an allocator that the caller provides, from C++ and C: results have the same bits as without an
// executor, all memory is freed, and failures are errors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "attention/small_problem.h"
#include "strobe/strobe.h"

namespace strobe::test {
namespace {

// Runs tasks in order on the calling thread and counts them.
struct InOrder {
  int calls = 0, tasks = 0;

  static void run(void* context, int count, Executor::Task task, void* task_context) {
    InOrder& self = *static_cast<InOrder*>(context);
    ++self.calls;
    self.tasks += count;
    for (int i = 0; i < count; ++i) task(task_context, i);
  }
};

struct Heap {
  std::size_t most = 0, offset = 0;
  int active = 0, calls = 0;
  bool is_full = false;

  static void* allocate(void* context, std::size_t bytes) {
    Heap& self = *static_cast<Heap*>(context);
    ++self.calls;
    if (self.is_full) return nullptr;
    self.most = std::max(self.most, bytes);
    ++self.active;
    return static_cast<char*>(std::aligned_alloc(64, (bytes + 128) / 64 * 64)) + self.offset;
  }
  static void deallocate(void* context, void* pointer, std::size_t bytes) {
    Heap& self = *static_cast<Heap*>(context);
    EXPECT_EQ(bytes, self.most);
    --self.active;
    std::free(static_cast<char*>(pointer) - self.offset);
  }
};

std::vector<float> bits(const SmallProblem& problem) { return problem.memory; }

TEST(Executor, GivesTheSameBitsInBothPasses) {
  SmallProblem expected, actual;
  for (std::size_t i = 0; i < expected.memory.size(); ++i) {
    expected.memory[i] = actual.memory[i] = static_cast<float>(i % 17) * 0.125f;
  }
  for (SmallProblem* problem : {&expected, &actual}) {
    problem->attention.alignment = Alignment::top_left;
    problem->attention.causal = true;
    problem->execution.threads = 3;
  }
  InOrder own;
  actual.execution.executor = {InOrder::run, &own};
  for (const SmallProblem* problem : {&expected, &actual}) {
    problem->forward();
    problem->backward();
  }
  EXPECT_EQ(bits(actual), bits(expected));
  EXPECT_GE(own.calls, 2);
  EXPECT_GT(own.tasks, own.calls);
}

TEST(Allocator, ProvidesTheWorkspaceAndGetsItBack) {
  SmallProblem problem;
  problem.attention.alignment = Alignment::top_left;
  Heap heap;
  problem.execution.allocator = {Heap::allocate, Heap::deallocate, &heap};
  problem.forward();
  EXPECT_EQ(heap.most, workspace_bytes(problem.attention, Pass::forward, problem.execution));
  heap.most = 0;
  problem.backward();
  EXPECT_EQ(heap.most, workspace_bytes(problem.attention, Pass::backward, problem.execution));
  EXPECT_GT(heap.calls, 0);
  EXPECT_EQ(heap.active, 0);
}

std::string error_of(const SmallProblem& problem) {
  try {
    problem.backward();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Allocator, FailuresAreErrorsWithoutLeaks) {
  SmallProblem problem;
  problem.attention.alignment = Alignment::top_left;
  Heap heap;
  problem.execution.allocator = {Heap::allocate, nullptr, &heap};
  EXPECT_EQ(error_of(problem), "attention: allocator.deallocate is null, but allocator.allocate is not");
  problem.execution.allocator.deallocate = Heap::deallocate;
  heap.offset = 4;
  EXPECT_NE(error_of(problem).find("is not aligned to 64 bytes"), std::string::npos);
  heap.offset = 0;
  heap.is_full = true;
  const std::size_t bytes = workspace_bytes(problem.attention, Pass::backward, problem.execution);
  EXPECT_EQ(error_of(problem),
            "attention: the caller's allocator returned null for " + std::to_string(bytes) + " bytes");
  EXPECT_EQ(heap.active, 0);
}

TEST(Executor, WorksThroughC) {
  const float q[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  float o[8] = {};
  strobe_attention attention;
  strobe_execution execution;
  ASSERT_EQ(strobe_attention_init(&attention, sizeof attention), STROBE_OK);
  ASSERT_EQ(strobe_execution_init(&execution, sizeof execution), STROBE_OK);
  attention.q = attention.k = attention.v = strobe_const_bhsd(q, STROBE_FP32, 2, 1, 1, 4);
  strobe_forward_outputs outputs{};
  outputs.size = sizeof outputs;
  outputs.o = strobe_bhsd(o, STROBE_FP32, 2, 1, 1, 4);
  InOrder own;
  Heap heap;
  execution.threads = 2;
  execution.executor = {InOrder::run, &own};
  execution.allocator = {Heap::allocate, Heap::deallocate, &heap};
  ASSERT_EQ(strobe_forward(&attention, &outputs, &execution), STROBE_OK) << strobe_last_error();
  EXPECT_EQ(std::memcmp(o, q, sizeof o), 0);  // one key per sequence, so O = V
  EXPECT_GT(own.calls, 0);
  EXPECT_EQ(heap.active, 0);
}

}  // namespace
}  // namespace strobe::test
