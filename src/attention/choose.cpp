// Implements choose(), the only function that chooses a kernel. attention.cpp calls it to run a pass, to compute the
// workspace size, and for explain().
#include <algorithm>
#include <cctype>
#include <string>

#include "attention/kernel.h"
#include "core/fail.h"
#include "core/printable.h"
#include "device/host/instruction_sets.h"

namespace strobe {

namespace {

const char* name_of(Device device) { return device == Device::cuda ? "cuda" : "cpu"; }

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// Returns the names of a device's kernels, such as "flash2, frugal, standard, reference".
std::string names_on(Device device) {
  std::string names;
  for (const std::string& name : kernel_names(device)) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

}  // namespace

// An invalid STROBE_CPU_ISA is an error unless the caller names a kernel. If it only made flash2 refuse, a misspelt
// value would silently select a slower kernel.
Choice choose(const Problem& problem, std::string_view name) {
  if (const std::string refusal = instruction_set_refusal(problem.cpu_isa.c_str()); name.empty() && !refusal.empty()) {
    fail(ErrorCode::unsupported, "attention: {}", refusal);
  }
  std::string refusals;
  for (const Kernel& kernel : kernels()) {
    if (!kernel.serves(problem) || !(name.empty() || same_name(name, kernel.name))) continue;
    Choice choice{&kernel, kernel.plan(problem)};
    const Plan& plan = choice.plan;
    const std::string& reason = !plan.refusal.empty() || !name.empty() ? plan.refusal : plan.by_name_only;
    if (reason.empty()) return choice;
    if (!name.empty()) fail(ErrorCode::unsupported, "attention: kernel '{}' refuses: {}", kernel.name, reason);
    refusals += fmt::format("{}'{}' refuses: {}", refusals.empty() ? "" : "; ", kernel.name, reason);
  }
  if (!name.empty()) {
    fail(ErrorCode::invalid_argument, "attention: unknown kernel '{}' on device {}; valid are: {}", printable(name),
         name_of(problem.device), names_on(problem.device));
  }
  fail(ErrorCode::unsupported, "attention: no kernel on device {} takes this problem: {}", name_of(problem.device),
       refusals.empty() ? "none serves this pass and dtype" : refusals);
}

}  // namespace strobe
