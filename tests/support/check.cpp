// Assertions on kernels: compares them with the float64 oracle.
#include "support/check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "attention/cpu/isa.h"
#include "support/compare.h"
#include "support/isa_scope.h"

namespace strobe::test {

void expect_near(const Case& c, const Results& reference, const Results& results, double limit,
                 const std::string& who) {
  for (const auto& [name, member] : kOutputs) {
    const auto& expected = reference.*member;
    const auto& got = results.*member;
    ASSERT_EQ(expected.size(), got.size()) << who << " " << name;
    // The scale is at least 1, because inputs and terms that cancel have magnitudes near 1. Values of at least kHuge
    // (the LSE of a row whose bias is the lowest float) are compared relative to their own magnitude instead.
    constexpr double kHuge = 1e30;
    double largest = 1;
    for (const double x : expected) largest = std::abs(x) < kHuge ? std::max(largest, std::abs(x)) : largest;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(std::isfinite(expected[i]), std::isfinite(got[i]))
          << who << " " << name << "[" << i << "] is " << got[i] << " instead of " << expected[i];
      ASSERT_EQ(std::isnan(expected[i]), std::isnan(got[i]))
          << who << " " << name << "[" << i << "] is " << got[i] << " instead of " << expected[i];
      if (!std::isfinite(expected[i])) {
        if (std::isinf(expected[i]) && member == &Results::lse) {
          ASSERT_EQ(expected[i], got[i]) << who << " LSE[" << i << "]";
        }
        continue;
      }
      const double scale = std::abs(expected[i]) < kHuge ? largest : std::abs(expected[i]);
      ASSERT_LE(std::abs(got[i] - expected[i]), limit * unit_roundoff(c.dtype) * scale)
          << who << " " << name << "[" << i << "] is " << got[i] << " instead of " << expected[i];
    }
  }
}

std::vector<std::string> isas_for(DType dtype) {
  std::vector<std::string> names = available_isas();
  std::erase_if(names, [&](const std::string& name) { return name != cpu::choose_isa(dtype, name.c_str()).name; });
  return names;
}

void check(const Data& data, Kernels kernels, double limit) {
  SCOPED_TRACE(describe(data.c));
  const Results reference = oracle(data);
  const auto expect = [&](const RunOptions& options, const std::string& who) {
    const Outcome outcome = run(data, options);
    EXPECT_EQ(outcome.complaint, "") << who;
    expect_near(data.c, reference, outcome.results, limit, who);
  };
  expect({.kernel = "reference"}, "reference");
  if (kernels == Kernels::all) expect({.kernel = "standard", .threads = 2}, "standard");
  for (const std::string& isa : isas_for(data.c.dtype)) {
    const IsaScope scope(isa);
    expect({.kernel = "flash2", .threads = 2, .own_workspace = true}, "flash2 " + isa);
  }
}

}  // namespace strobe::test
