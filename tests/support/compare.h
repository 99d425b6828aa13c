// The exactness rule: error(kernel) <= 2 * error(standard) + floor against the float64 oracle, on the maximum and on
// the mean, for every output. A value that is not finite must be the same in the oracle and in the kernel.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "strobe/dtype.h"
#include "support/run.h"

namespace strobe::test {

// Half a unit in the last place of 1: 2^-24, 2^-11, 2^-8.
double unit_roundoff(DType dtype);

struct Deviation {
  double max = 0, mean = 0;
  double reference_max = 0, reference_mean = 0;
  std::string mismatch;  // empty, or the first value that is not finite on one side only
};

// `stored` is the type of the output: a reference beyond its range must come out as an infinity.
Deviation deviation(const std::vector<double>& reference, const std::vector<double>& values, DType stored);

// The rule's verdict on a kernel's results.
struct Judgement {
  std::vector<std::string> broken;  // for each output in the order of kOutputs: empty, or lines for what breaks it
  // Faults that another draw of values cannot excuse: errors far beyond the rule, and values that are not finite on one
  // side only.
  std::string gross;

  std::string all_broken() const;
};

// The rule for one case. The errors of `standard` are measured once, however many kernels are held to them.
class Rule {
 public:
  Rule(const Case& c, const Results& reference, const Results& standard);  // case and reference stay where they are
  Judgement judge(const Results& candidate) const;

 private:
  const Case& c_;
  const Results& reference_;
  std::array<Deviation, kOutputs.size()> standard_;  // per output
  double gross_unit_;  // larger of the dtype's roundoff and fp32's times the largest score
};

// For one kernel: Judgement::broken, and all its lines.
std::vector<std::string> exactness_by_output(const Case& c, const Results& reference, const Results& standard,
                                             const Results& candidate);
std::string exactness(const Case& c, const Results& reference, const Results& standard, const Results& candidate);

// The rule compares two roundings of the same values, and one draw of values may favour either: a kernel with exactly
// standard's error breaks it now and then. A case that breaks it is drawn again many times, and each output must
// satisfy the rule in most draws. A kernel whose error really is more than twice standard's fails.
class Draws {
 public:
  static constexpr int kCount = 31;

  void add(const std::vector<std::string>& by_output);
  std::string verdict() const;  // empty, or the last line of each output that broke the rule in most draws

 private:
  int draws_ = 0;
  std::array<int, kOutputs.size()> broken_{};
  std::array<std::string, kOutputs.size()> last_;
};

// The rule says little where `standard` itself is wrong, so that has a limit of its own: a generous multiple of u times
// the largest value (or 1, the order of the inputs, since terms may cancel).
std::string plausibility(const Case& c, const Results& reference, const Results& standard);

// Returns the name of the first output that differs in a bit; empty: none.
std::string first_difference(const Results& a, const Results& b);

}  // namespace strobe::test
