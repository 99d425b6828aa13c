// Implements the error measures and the exactness rule of compare.h.
#include "support/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/half.h"

namespace strobe::test {
namespace {

// If all biases of a row are the lowest finite number, the magnitude of the row's LSE may exceed this. max|reference|
// leaves such values out, because they would make the rule's floor too large for all other values. same_kind() checks
// them.
constexpr double kHuge = 1e30;

// Below this magnitude every dtype can represent the reference, so the value must be finite.
constexpr double kOrdinary = 65504;  // largest finite fp16

// An error is gross if it exceeds the rule's limit by more than this factor. Ratios of 20 occur for an output of one
// value, whose error in `standard` may be almost 0 by chance.
constexpr double kGross = 64;

bool same_kind(double reference, double value, DType stored) {
  if (std::isnan(reference)) return std::isnan(value);
  const double rounded = round_to(stored, static_cast<float>(reference));
  if (std::isinf(rounded)) return value == rounded;
  if (std::abs(reference) >= kHuge) return std::abs(value - reference) <= 1e-2 * std::abs(reference);
  return std::isfinite(value);
}

// Returns the largest magnitude of an LSE below kHuge, at least 1. A probability e^(score - LSE) has a relative error
// of this many fp32 roundoffs.
double largest_score(const Results& reference) {
  double largest = 1;
  for (const double lse : reference.lse) {
    if (std::abs(lse) < kHuge) largest = std::max(largest, std::abs(lse));
  }
  return largest;
}

DType stored_type(const Case& c, std::vector<double> Results::*output) {
  const bool wide = output == &Results::lse || output == &Results::dbias || output == &Results::dsinks;
  return wide ? DType::fp32 : c.dtype;
}

// Describes the errors of one output that exceed times_limit * the rule's limit. Returns "" if none do. The floor of
// the rule is a multiple of `unit`. theirs: errors of `standard`.
std::string errors_beyond(double times_limit, double unit, const char* name, const Deviation& theirs,
                          const Deviation& ours) {
  std::string text;
  if (!theirs.mismatch.empty()) text += fmt::format("  {} of standard: {}\n", name, theirs.mismatch);
  if (!ours.mismatch.empty()) text += fmt::format("  {}: {}\n", name, ours.mismatch);
  const auto rule = [&](const char* which, double error, double standard, double floor, double size) {
    const double limit = times_limit * (2 * standard + floor);
    if (error <= limit) return;
    text += fmt::format("  {}: {} error {:.3g} > {:.3g} (standard's {:.3g}, {} |ref| {:.3g})\n", name, which, error,
                        limit, standard, which, size);
  };
  rule("max", ours.max, theirs.max, 4 * unit * ours.reference_max, ours.reference_max);
  rule("mean", ours.mean, theirs.mean, unit * ours.reference_mean, ours.reference_mean);
  return text;
}

}  // namespace

double unit_roundoff(DType dtype) { return dtype == DType::fp32 ? 0x1p-24 : dtype == DType::fp16 ? 0x1p-11 : 0x1p-8; }

Deviation deviation(const std::vector<double>& reference, const std::vector<double>& values, DType stored) {
  Deviation result;
  if (reference.size() != values.size()) {
    result.mismatch = fmt::format("{} values instead of {}", values.size(), reference.size());
    return result;
  }
  std::size_t measured = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const bool ordinary = std::abs(reference[i]) < kOrdinary && std::isfinite(values[i]);
    if (!ordinary && !same_kind(reference[i], values[i], stored)) {
      if (result.mismatch.empty())
        result.mismatch = fmt::format("[{}] is {} instead of {}", i, values[i], reference[i]);
      continue;
    }
    if (!std::isfinite(values[i]) || std::abs(reference[i]) >= kHuge) continue;
    const double error = std::abs(values[i] - reference[i]);
    result.max = std::max(result.max, error);
    result.mean += error;
    result.reference_max = std::max(result.reference_max, std::abs(reference[i]));
    result.reference_mean += std::abs(reference[i]);
    ++measured;
  }
  if (measured > 0) {
    result.mean /= static_cast<double>(measured);
    result.reference_mean /= static_cast<double>(measured);
  }
  return result;
}

std::string Judgement::all_broken() const {
  std::string text;
  for (const std::string& line : broken) text += line;
  return text;
}

Rule::Rule(const Case& c, const Results& reference, const Results& standard)
    : c_(c),
      reference_(reference),
      gross_unit_(std::max(unit_roundoff(c.dtype), unit_roundoff(DType::fp32) * largest_score(reference))) {
  for (std::size_t i = 0; i < kOutputs.size(); ++i) {
    const auto member = kOutputs[i].second;
    standard_[i] = deviation(reference.*member, standard.*member, stored_type(c, member));
  }
}

Judgement Rule::judge(const Results& candidate) const {
  Judgement judgement;
  for (std::size_t i = 0; i < kOutputs.size(); ++i) {
    const auto& [name, member] = kOutputs[i];
    const Deviation ours = deviation(reference_.*member, candidate.*member, stored_type(c_, member));
    judgement.broken.push_back(errors_beyond(1, unit_roundoff(c_.dtype), name, standard_[i], ours));
    judgement.gross += errors_beyond(kGross, gross_unit_, name, standard_[i], ours);
  }
  return judgement;
}

std::vector<std::string> exactness_by_output(const Case& c, const Results& reference, const Results& standard,
                                             const Results& candidate) {
  return Rule(c, reference, standard).judge(candidate).broken;
}

std::string exactness(const Case& c, const Results& reference, const Results& standard, const Results& candidate) {
  return Rule(c, reference, standard).judge(candidate).all_broken();
}

void Draws::add(const std::vector<std::string>& by_output) {
  ++draws_;
  for (std::size_t i = 0; i < by_output.size(); ++i) {
    if (by_output[i].empty()) continue;
    ++broken_[i];
    last_[i] = by_output[i];
  }
}

std::string Draws::verdict() const {
  std::string text;
  for (std::size_t i = 0; i < broken_.size(); ++i) {
    if (2 * broken_[i] > draws_) text += fmt::format("{}  in {} of {} draws\n", last_[i], broken_[i], draws_);
  }
  return text;
}

std::string plausibility(const Case& c, const Results& reference, const Results& results) {
  // Large scores are checked in fp32 only: the error of a score rounded to 16 bits has no useful bound.
  if (c.dtype != DType::fp32 && c.values == Values::large) return {};
  const double units = c.dtype == DType::bf16 ? 128 : c.values == Values::large ? 65536 : 512;
  std::string text;
  for (const auto& [name, member] : kOutputs) {
    const Deviation found = deviation(reference.*member, results.*member, DType::fp32);
    const double limit = units * unit_roundoff(c.dtype) * std::max(1.0, found.reference_max);
    if (found.max > limit) text += fmt::format("  {}: max error {:.3g} > {:.3g}\n", name, found.max, limit);
  }
  return text;
}

std::string first_difference(const Results& a, const Results& b) {
  for (const auto& [name, member] : kOutputs) {
    const auto& x = a.*member;
    const auto& y = b.*member;
    if (x.size() != y.size() || (!x.empty() && std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) != 0)) {
      return name;
    }
  }
  return {};
}

}  // namespace strobe::test
