// Converts precisions and recomputation modes to and from their names.
#include "lm/models/choices.h"

#include <algorithm>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::lm {

namespace {

// In the order of Precision and of Recompute.
constexpr const char *kPrecisionNames[] = {"fp32", "tf32", "bf16", "fp16"},
                     *kRecomputeNames[] = {"none", "attention", "block"};
constexpr DType kDtypes[] = {DType::fp32, DType::fp32, DType::bf16, DType::fp16};

}  // namespace

std::size_t index_of_name(std::string_view what, std::string_view name, std::span<const char* const> names) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  fail(ErrorCode::invalid_argument, "{} {}: valid: {}", what, printable_value(name), fmt::join(names, ", "));
}

std::vector<std::string> precision_names() { return {std::begin(kPrecisionNames), std::end(kPrecisionNames)}; }

const char* name_of(Precision precision) { return kPrecisionNames[static_cast<std::size_t>(precision)]; }

Precision precision_of(std::string_view name) {
  return static_cast<Precision>(index_of_name("precision", name, kPrecisionNames));
}

DType dtype_of(Precision precision) { return kDtypes[static_cast<std::size_t>(precision)]; }

std::vector<std::string> recompute_names() { return {std::begin(kRecomputeNames), std::end(kRecomputeNames)}; }

const char* name_of(Recompute recompute) { return kRecomputeNames[static_cast<std::size_t>(recompute)]; }

Recompute recompute_of(std::string_view name) {
  return static_cast<Recompute>(index_of_name("recompute", name, kRecomputeNames));
}

}  // namespace strobe::lm
