// Interface between the public functions and the kernels. A kernel is one entry of the ordered list from which choose()
// selects. Its plan() makes all decisions about a problem once per call. The choice, the workspace size, explain() and
// the run all use that Plan.
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

// A kernel's decision about one problem: either a refusal (the kernel does not support it) or a launch. The launch is
// stored inside the object, so running a plan does not allocate.
class Plan {
 public:
  // Creates a refusal. The reason does not contain the kernel's name.
  explicit Plan(std::string reason) : refusal(std::move(reason)) {}

  // Creates a launch. The type Launch has two member functions:
  //   std::string text(const Problem&) const;           returns the configuration (such as tile sizes) for explain()
  //   void run(const Problem&, void* workspace) const;  the workspace has `bytes` bytes, aligned to 64, not initialised
  template <class Launch>
  Plan(const Launch& launch, std::size_t bytes)
      : workspace_bytes(bytes),
        text_([](const Plan& plan, const Problem& problem) { return plan.as<Launch>().text(problem); }),
        run_([](const Plan& plan, const Problem& problem, void* memory) { plan.as<Launch>().run(problem, memory); }) {
    static_assert(std::is_trivially_copyable_v<Launch> && sizeof(Launch) <= sizeof(launch_));
    static_assert(alignof(Launch) <= alignof(std::max_align_t));
    new (launch_) Launch(launch);
  }

  std::string refusal;              // reason of a refusal; empty for a launch
  std::string by_name_only;         // reason why choose() requires the caller to name the kernel; empty if it does not
  std::size_t workspace_bytes = 0;  // in a workspace query: enough for outputs with any strides

  // text() and run() require the problem for which the plan was made.
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

// An entry of the list of kernels. On each device, exactly one entry of a given name serves each pass and dtype.
struct Kernel {
  const char* name;  // also used by tests, benchmarks and --impl
  Device device;
  Pass pass;
  Plan (*plan)(const Problem&);
  Types types = Types::all;

  bool serves(const Problem& problem) const {
    const bool fp32 = problem.dtype == DType::fp32;
    return device == problem.device && pass == problem.pass && (types == Types::all || fp32 == (types == Types::fp32));
  }
};

// Returns the list of kernels in order of preference; the reference is last on the CPU.
std::span<const Kernel> kernels();

struct Choice {
  const Kernel* kernel;
  Plan plan;
};

// Returns the kernel called `name` or, if that is empty, the first kernel that supports the problem and whose plan has
// no by_name_only. Does not launch or allocate anything on a device. Throws Error(unsupported) with the reasons if the
// named kernel, or without a name every kernel, refuses the problem. Throws Error(invalid_argument) if there is no
// kernel of that name.
Choice choose(const Problem& problem, std::string_view name = {});

}  // namespace strobe
