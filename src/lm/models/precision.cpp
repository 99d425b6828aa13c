#include "lm/models/precision.h"

#include <array>

#include "core/fail.h"
#include "core/printable.h"

namespace strobe::lm {

namespace {

struct NamedPrecision {
  Precision precision;
  const char* name;
  DType dtype;
};
constexpr std::array<NamedPrecision, 4> kTable{{{Precision::fp32, "fp32", DType::fp32},
                                                {Precision::tf32, "tf32", DType::fp32},
                                                {Precision::bf16, "bf16", DType::bf16},
                                                {Precision::fp16, "fp16", DType::fp16}}};

const NamedPrecision& row_of(Precision precision) { return kTable[static_cast<std::size_t>(precision)]; }

}  // namespace

std::vector<std::string> precision_names() {
  std::vector<std::string> names;
  for (const NamedPrecision& row : kTable) names.emplace_back(row.name);
  return names;
}

const char* name_of(Precision precision) { return row_of(precision).name; }

Precision precision_of(std::string_view name) {
  for (const NamedPrecision& row : kTable) {
    if (name == row.name) return row.precision;
  }
  fail(ErrorCode::invalid_argument, "precision {}: valid: {}", printable_value(name),
       fmt::join(precision_names(), ", "));
}

DType dtype_of(Precision precision) { return row_of(precision).dtype; }

}  // namespace strobe::lm
