// The exactness rule: error(kernel) <= 2 * error(standard) + floor, both errors against the float64 oracle. It applies
// to the maximum and to the mean error of every output. A value that is not finite must be the same in oracle and
// kernel.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "strobe/dtype.h"
#include "support/run.h"

namespace strobe::test {

// Returns half an ulp of 1: 2^-24, 2^-11, 2^-8.
double unit_roundoff(DType dtype);

struct Deviation {
  double max = 0, mean = 0;
  double reference_max = 0, reference_mean = 0;
  std::string mismatch;  // the first value that is finite on one side only; empty if there is none
};

// `stored` is the dtype of the output: a reference outside its range must be infinite in the output.
Deviation deviation(const std::vector<double>& reference, const std::vector<double>& values, DType stored);

// The rule's verdict on the results of one kernel.
struct Judgement {
  std::vector<std::string> broken;  // one per output, in the order of kOutputs: lines that describe the faults; or
                                    // empty
  // Faults that other random values cannot excuse: errors far beyond the rule, and values that are finite on one side
  // only.
  std::string gross;

  std::string all_broken() const;
};

// The rule for one case. Measures the errors of `standard` once, for any number of kernels.
class Rule {
 public:
  Rule(const Case& c, const Results& reference, const Results& standard);  // the arguments must outlive this object
  Judgement judge(const Results& candidate) const;

 private:
  const Case& c_;
  const Results& reference_;
  std::array<Deviation, kOutputs.size()> standard_;  // one per output
  double gross_unit_;  // the larger of: roundoff of the dtype; roundoff of fp32 times the largest score
};

// For a single kernel: returns Judgement::broken, and in exactness() all its lines.
std::vector<std::string> exactness_by_output(const Case& c, const Results& reference, const Results& standard,
                                             const Results& candidate);
std::string exactness(const Case& c, const Results& reference, const Results& standard, const Results& candidate);

// Repeats a case that breaks the rule with other random values. The rule compares two roundings of the same values, and
// single values may favour either: a kernel with exactly the error of `standard` breaks it now and then. Each output
// must satisfy the rule in most draws. A kernel whose error exceeds twice that of `standard` fails.
class Draws {
 public:
  static constexpr int kCount = 31;

  void add(const std::vector<std::string>& by_output);
  std::string verdict() const;  // the last line of each output that broke the rule in most draws; empty if none did

 private:
  int draws_ = 0;
  std::array<int, kOutputs.size()> broken_{};
  std::array<std::string, kOutputs.size()> last_;
};

// Checks `standard` itself, since the rule proves little if that is wrong. Its limit is a generous multiple of u times
// the largest value (at least 1, the order of the inputs, since terms may cancel).
std::string plausibility(const Case& c, const Results& reference, const Results& standard);

// Returns the name of the first output that differs in a bit; empty if none does.
std::string first_difference(const Results& a, const Results& b);

}  // namespace strobe::test
