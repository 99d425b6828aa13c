// The one place where a kernel is chosen. Called by attention.cpp for run, workspace and explain alike.
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

// "flash2, frugal, standard, reference": the kernels of a device.
std::string names_on(Device device) {
  std::string names;
  for (const Kernel& kernel : kernels()) {
    if (kernel.device == device) names += (names.empty() ? "" : ", ") + std::string(kernel.name);
  }
  return names.empty() ? "none" : names;
}

}  // namespace

// An instruction set that is not there is bad input: were it only flash2's refusal, a misspelt one would leave all work
// to a slower kernel in silence. Who names a kernel has chosen.
const Kernel& choose(const Problem& problem, std::string_view name) {
  if (const std::string refusal = instruction_set_refusal(problem.cpu_isa.c_str()); name.empty() && !refusal.empty()) {
    fail(ErrorCode::unsupported, "attention: {}", refusal);
  }
  std::string refusals;
  for (const Kernel& kernel : kernels()) {
    if (kernel.device != problem.device || !(name.empty() || same_name(name, kernel.name))) continue;
    std::string refusal = kernel.refusal(problem);
    if (refusal.empty() && name.empty() && kernel.reserve) refusal = kernel.reserve(problem);
    if (refusal.empty()) return kernel;
    if (!name.empty()) fail(ErrorCode::unsupported, "attention: kernel '{}' refuses: {}", kernel.name, refusal);
    refusals += fmt::format("{}'{}' refuses: {}", refusals.empty() ? "" : "; ", kernel.name, refusal);
  }
  if (!name.empty()) {
    fail(ErrorCode::invalid_argument, "attention: unknown kernel '{}' on device {}; valid are: {}", printable(name),
         name_of(problem.device), names_on(problem.device));
  }
  fail(ErrorCode::unsupported, "attention: no kernel on device {} takes this problem: {}", name_of(problem.device),
       refusals.empty() ? "there is none" : refusals);
}

}  // namespace strobe
