// The exactness rule: error(kernel) <= 2 * error(standard) + floor. An error is the absolute difference from the
// float64 oracle; u is the roundoff of the dtype. The rule applies to every output's maximum error (floor = 4 u
// max|reference|) and mean error (floor = u mean|reference|). Where the oracle is infinite or NaN, the kernel must
// return the same value.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "strobe/dtype.h"
#include "support/run.h"

namespace strobe::test {

// Returns half an ulp of 1 in the dtype: 2^-24 (fp32), 2^-11 (fp16) or 2^-8 (bf16).
double unit_roundoff(DType dtype);

struct Deviation {
  double max = 0, mean = 0;
  double reference_max = 0, reference_mean = 0;
  std::string mismatch;  // first value whose kind (finite, infinity, NaN) differs from the reference; empty: none
};

// `stored` is the dtype of the output: a reference outside its range must be infinite in the output.
Deviation deviation(const std::vector<double>& reference, const std::vector<double>& values, DType stored);

// Result of applying the rule to one kernel.
struct Judgement {
  std::vector<std::string> broken;  // per output, in the order of kOutputs: one line per fault; empty if none
  // Faults that other random values cannot excuse: errors far above the rule's limit, and mismatches (Deviation).
  std::string gross;

  std::string all_broken() const;
};

// Applies the rule to one case. Measures the errors of `standard` once, for any number of kernels.
class Rule {
 public:
  Rule(const Case& c, const Results& reference, const Results& standard);  // the arguments must outlive this object
  Judgement judge(const Results& candidate) const;

 private:
  const Case& c_;
  const Results& reference_;
  std::array<Deviation, kOutputs.size()> standard_;  // one per output
  double gross_unit_;                                // max(roundoff of the dtype, roundoff of fp32 * largest score)
};

// For a single kernel: exactness_by_output() returns Judgement::broken, exactness() the same lines in one text.
std::vector<std::string> exactness_by_output(const Case& c, const Results& reference, const Results& standard,
                                             const Results& candidate);
std::string exactness(const Case& c, const Results& reference, const Results& standard, const Results& candidate);

// Repeats a case that breaks the rule with other random values. Rounding errors are random, so a kernel with exactly
// the error of `standard` sometimes breaks the rule. Each output must satisfy the rule in most draws; a kernel whose
// error exceeds twice that of `standard` fails.
class Draws {
 public:
  static constexpr int kCount = 31;

  void add(const std::vector<std::string>& by_output);
  // Returns the last message about each output that broke the rule in most draws; empty if none did.
  std::string verdict() const;

 private:
  int draws_ = 0;
  std::array<int, kOutputs.size()> broken_{};
  std::array<std::string, kOutputs.size()> last_;
};

// Checks errors without comparing kernels. Used mainly for `standard`: if its errors were large, the rule would accept
// large errors of other kernels. The limit is a generous multiple of u times the largest value. That value is at least
// 1, the magnitude of the inputs, because terms may cancel.
std::string plausibility(const Case& c, const Results& reference, const Results& results);

// Returns the name of the first output in which any bit differs; empty if none does.
std::string first_difference(const Results& a, const Results& b);

}  // namespace strobe::test
