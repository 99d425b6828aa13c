// Tests the kernel chooser: order of the kernel list, forced kernels, reasons for refusals, and explain(). Also tests
// the size of the workspace, and tensors without elements.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "attention/kernel.h"
#include "attention/small_problem.h"
#include "attention/validate.h"
#include "device/host/allocator.h"
#include "support/isa_scope.h"

namespace strobe {
namespace {

using test::SmallProblem;

TEST(Choose, OrderOfTheKernelList) {
  EXPECT_EQ(kernel_names(Device::cpu), (std::vector<std::string>{"flash2", "frugal", "standard", "reference"}));
  EXPECT_EQ(kernel_names(Device::cuda).back(), "standard");
}

// Each name occurs once per device, pass and type.
TEST(Choose, ANameIdentifiesOneKernelOfAProblem) {
  Problem problem;
  for (const Device device : {Device::cpu, Device::cuda}) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
        problem.device = device, problem.pass = pass, problem.dtype = dtype;
        std::vector<std::string> names;
        for (const Kernel& kernel : kernels()) {
          if (kernel.serves(problem)) names.emplace_back(kernel.name);
        }
        EXPECT_EQ(names, kernel_names(device)) << name_of(dtype);
      }
    }
  }
}

TEST(Choose, FirstSupportingKernelWins) {
  SmallProblem s;
  const Problem problem = validate_query(s.attention, Pass::forward, {});
  const Kernel* expected = nullptr;
  for (const Kernel& kernel : kernels()) {
    if (!expected && kernel.serves(problem) && kernel.plan(problem).refusal.empty()) expected = &kernel;
  }
  EXPECT_EQ(choose(problem).kernel, expected);
}

TEST(Choose, EveryCpuKernelSupportsCombinedOptions) {
  SmallProblem s;
  s.add_bias({2, 4, 3, 5});
  s.add_sinks();
  s.attention.alibi_slopes = s.array(4);
  s.attention.causal = true;
  s.attention.alignment = Alignment::bottom_right;
  s.attention.window = {1, 0};
  s.attention.softcap = 3;
  s.attention.dropout = {.p = 0.25f, .seed = 3};
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const Problem problem = validate_query(s.attention, pass, {});
    for (const Kernel& kernel : kernels()) {
      if (!kernel.serves(problem)) continue;
      EXPECT_EQ(kernel.plan(problem).refusal, "") << kernel.name;
    }
  }
}

TEST(Choose, NamesIgnoreCase) {
  SmallProblem s;
  const Problem problem = validate_query(s.attention, Pass::backward, {});
  EXPECT_STREQ(choose(problem, "standard").kernel->name, "standard");
  EXPECT_STREQ(choose(problem, "Reference").kernel->name, "reference");
  EXPECT_STREQ(choose(problem, "FLASH2").kernel->name, "flash2");
}

TEST(Choose, ErrorOfAnUnknownNameListsTheValidOnes) {
  SmallProblem s;
  const Problem problem = validate_query(s.attention, Pass::forward, {});
  for (const char* name : {"flash", "flash22", " flash2", "cudnn"}) {
    try {
      choose(problem, name);
      ADD_FAILURE() << name << " was found";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      EXPECT_EQ(error.what(), "attention: unknown kernel '" + std::string(name) +
                                  "' on device cpu; valid are: flash2, frugal, standard, reference");
    }
  }
}

// If no kernel supports the GPU, or the build has no CUDA, the chooser throws an error with the reason.
TEST(Choose, ADeviceWithoutKernelsIsUnsupported) {
  SmallProblem s;
  Problem problem = validate_query(s.attention, Pass::forward, {});
  problem.device = Device::cuda;
  try {
    choose(problem);
    ADD_FAILURE() << "found a kernel";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("device cuda"), std::string::npos) << error.what();
  }
}

// With an unavailable instruction set, flash2 refuses with the reason. Other kernels run only if the caller names them.
TEST(Choose, UnknownInstructionSetIsRejected) {
  const test::IsaScope scope("bogus");
  SmallProblem s;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const std::vector<Verdict> verdicts = explain(s.attention, pass, {});
    EXPECT_EQ(verdicts[0].refusal.rfind("STROBE_CPU_ISA is 'bogus'; this machine and build have generic", 0), 0u)
        << verdicts[0].refusal;
    for (const Verdict& verdict : verdicts) EXPECT_FALSE(verdict.chosen) << verdict.kernel;
    EXPECT_THROW(workspace_bytes(s.attention, pass, {}), Error);
    for (const char* const kernel : {"", "flash2"}) {
      s.execution.kernel = kernel;
      EXPECT_THROW(pass == Pass::forward ? s.forward() : s.backward(), Error) << kernel;
    }
    s.execution.kernel = "standard";
    EXPECT_NO_THROW(workspace_bytes(s.attention, pass, s.execution));
    EXPECT_NO_THROW(pass == Pass::forward ? s.forward() : s.backward());
  }
}

TEST(Explain, AgreesWithChooseAndWorkspaceBytes) {
  SmallProblem s;
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    for (const char* name : {"", "flash2", "frugal", "standard", "reference"}) {
      const Execution execution{.kernel = name};
      const Problem problem = validate_query(s.attention, pass, execution);
      const Choice chosen = choose(problem, name);
      int marked = 0;
      const auto verdicts = explain(s.attention, pass, execution);
      ASSERT_EQ(verdicts.size(), kernel_names(Device::cpu).size());
      for (std::size_t i = 0; i < verdicts.size(); ++i) {
        EXPECT_EQ(verdicts[i].kernel, kernel_names(Device::cpu)[i]);
        EXPECT_EQ(verdicts[i].refusal, "");
        marked += verdicts[i].chosen;
        if (!verdicts[i].chosen) continue;
        EXPECT_EQ(verdicts[i].kernel, chosen.kernel->name);
        EXPECT_EQ(verdicts[i].configuration, chosen.plan.text(problem));
        EXPECT_EQ(verdicts[i].workspace_bytes, workspace_bytes(s.attention, pass, execution));
        EXPECT_FALSE(verdicts[i].configuration.empty());
      }
      EXPECT_EQ(marked, 1);
    }
  }
}

// workspace_bytes() for tensors without pointers returns enough for a run with pointers.
TEST(Workspace, SizeWithoutPointersIsEnough) {
  SmallProblem s;
  s.add_bias({1, 4, 3, 5});
  s.add_sinks();
  Attention shapes = s.attention;
  shapes.q.data = shapes.k.data = shapes.v.data = shapes.bias.data = nullptr;
  for (const char* name : {"flash2", "frugal", "standard", "reference"}) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      Execution execution{.kernel = name, .workspace = nullptr};
      const std::size_t bytes = workspace_bytes(shapes, pass, execution);
      std::vector<char> memory(bytes + 64);
      const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
      s.execution = execution;
      s.execution.workspace = memory.data() + (64 - address % 64) % 64;
      s.execution.workspace_bytes = bytes;
      EXPECT_NO_THROW(pass == Pass::forward ? s.forward() : s.backward()) << name;
    }
  }
}

// Without a caller's workspace the library allocates exactly workspace_bytes(), and frees them.
TEST(Workspace, EqualsTheAllocatedBytes) {
  SmallProblem s;
  for (const char* name : {"flash2", "frugal", "standard", "reference"}) {
    s.execution.kernel = name;
    s.execution.threads = 2;
    const AllocationStatistics before = host_allocator().statistics();
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      host_allocator().reset_peak();
      EXPECT_NO_THROW(pass == Pass::forward ? s.forward() : s.backward());
      const AllocationStatistics after = host_allocator().statistics();
      EXPECT_EQ(after.current, before.current) << name;
      EXPECT_EQ(after.peak - before.current, workspace_bytes(s.attention, pass, s.execution)) << name;
    }
  }
}

// With zero query heads or zero rows, the forward of every kernel writes nothing and the backward writes zeros.
TEST(Empty, NoRowsOrHeadsGiveZeroGradients) {
  for (const int dimension : {1, 2}) {
    for (const char* name : {"flash2", "frugal", "standard", "reference"}) {
      SmallProblem s;
      s.execution.kernel = name;
      s.add_bias({1, 1, 1, 5});
      if (dimension == 2) s.add_sinks();
      const auto i = static_cast<std::size_t>(dimension);
      for (ConstView* view : {&s.attention.q, &s.inputs.o, &s.inputs.d_o}) view->shape[i] = 0;
      for (View* view : {&s.outputs.o, &s.gradients.dq}) view->shape[i] = 0;
      EXPECT_NO_THROW(s.forward());
      EXPECT_NO_THROW(s.backward());
      EXPECT_EQ(static_cast<float*>(s.outputs.o.data)[0], 0.25f) << "no element of O may be written";
      for (int n = 0; n < 2 * 2 * 5 * 8; ++n) ASSERT_EQ(static_cast<float*>(s.gradients.dk.data)[n], 0) << name << n;
      for (int n = 0; n < 2 * 2 * 5 * 6; ++n) ASSERT_EQ(static_cast<float*>(s.gradients.dv.data)[n], 0) << name << n;
      for (int n = 0; n < 5; ++n) ASSERT_EQ(static_cast<float*>(s.gradients.dbias.data)[n], 0) << name << n;
      for (int n = 0; n < 4 && dimension == 2; ++n) ASSERT_EQ(s.gradients.dsinks[n], 0) << name << n;
    }
  }
}

TEST(Empty, ForwardOfNoKeys) {
  for (const char* name : {"flash2", "frugal", "standard", "reference"}) {
    SmallProblem s;
    s.execution.kernel = name;
    s.attention.k.shape[2] = s.attention.v.shape[2] = 0;
    EXPECT_NO_THROW(s.forward());
    for (int n = 0; n < 2 * 4 * 3 * 6; ++n) ASSERT_EQ(static_cast<float*>(s.outputs.o.data)[n], 0) << name << n;
    for (int n = 0; n < 2 * 4 * 3; ++n) {
      ASSERT_EQ(s.outputs.lse[n], -std::numeric_limits<float>::infinity()) << name << n;
    }
  }
}

}  // namespace
}  // namespace strobe
