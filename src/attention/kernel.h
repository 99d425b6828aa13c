// A kernel is one row of the ordered list that choose() walks. Its plan() makes all decisions about a problem once per
// call; choosing, workspace, explain and run all use that one Plan.
#pragma once

#include <cstddef>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "attention/problem.h"

namespace strobe {

// A kernel's decision about one problem: a refusal or a launch. The launch is stored inside the object, so creating,
// copying and running a plan allocate nothing.
class Plan {
 public:
  // A refusal. The reason does not name the kernel.
  explicit Plan(std::string reason) : refusal(std::move(reason)) {}

  // A launch has two members:
  //   std::string text(const Problem&) const;           tiles and instruction set, for explain
  //   void run(const Problem&, void* workspace) const;  workspace: `bytes`, aligned to 64, contents undefined
  template <class Launch>
  Plan(const Launch& launch, std::size_t bytes)
      : workspace_bytes(bytes),
        text_([](const Plan& plan, const Problem& problem) { return plan.as<Launch>().text(problem); }),
        run_([](const Plan& plan, const Problem& problem, void* memory) { plan.as<Launch>().run(problem, memory); }) {
    static_assert(std::is_trivially_copyable_v<Launch> && sizeof(Launch) <= sizeof(launch_));
    static_assert(alignof(Launch) <= alignof(std::max_align_t));
    new (launch_) Launch(launch);
  }

  std::string refusal;              // empty if the kernel takes the problem
  std::string by_name_only;         // why choose() runs the kernel only if the caller names it; empty: no restriction
  std::size_t workspace_bytes = 0;  // a query without outputs returns enough for any output strides

  // Both require the problem that the plan was made for.
  std::string text(const Problem& problem) const { return text_(*this, problem); }
  void run(const Problem& problem, void* workspace) const { run_(*this, problem, workspace); }

 private:
  template <class Launch>
  const Launch& as() const {
    return *std::launder(reinterpret_cast<const Launch*>(launch_));
  }

  std::string (*text_)(const Plan&, const Problem&) = nullptr;
  void (*run_)(const Plan&, const Problem&, void*) = nullptr;
  alignas(std::max_align_t) std::byte launch_[384];
};

enum class Types : std::uint8_t { all, fp32, fp16_and_bf16 };

// Rows with the same name form a family. A family has exactly one row per pass and dtype on its device.
struct Kernel {
  const char* name;  // the same in tests, benchmarks and --impl
  Device device;
  Pass pass;
  Plan (*plan)(const Problem&);
  Types types = Types::all;

  bool serves(const Problem& problem) const {
    const bool fp32 = problem.dtype == DType::fp32;
    return device == problem.device && pass == problem.pass && (types == Types::all || fp32 == (types == Types::fp32));
  }
};

// In order of preference; the reference is last.
std::span<const Kernel> kernels();

struct Choice {
  const Kernel* kernel;
  Plan plan;
};

// Returns the first kernel that takes the problem and is not by name only, or the kernel called `name`. It launches
// nothing and allocates nothing on a device. Throws Error(unsupported) with the reasons if no kernel takes the problem.
Choice choose(const Problem& problem, std::string_view name = {});

}  // namespace strobe
