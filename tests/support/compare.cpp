// Error measures and the exactness rule.
#include "support/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/half.h"

namespace strobe::test {
namespace {

// Magnitudes from here on come from a lowest-finite bias in place of -inf. They would drown every other value of a
// tensor in the floor, so each is checked by itself.
constexpr double kHuge = 1e30;

bool same_kind(double reference, double value, DType stored) {
  if (std::isnan(reference)) return std::isnan(value);
  const double rounded = round_to(stored, static_cast<float>(reference));
  if (std::isinf(rounded)) return value == rounded;
  if (std::abs(reference) >= kHuge) return std::abs(value - reference) <= 1e-2 * std::abs(reference);
  return std::isfinite(value);
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
    if (!same_kind(reference[i], values[i], stored)) {
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
  if (measured > 0)
    result.mean /= static_cast<double>(measured), result.reference_mean /= static_cast<double>(measured);
  return result;
}

void Comparison::add(const Case& c, const Results& reference, const Results& standard, const Results& candidate) {
  const auto pool = [](Deviation& sum, const Deviation& draw) {
    sum.max += draw.max;
    sum.mean += draw.mean;
    sum.reference_max += draw.reference_max;
    sum.reference_mean += draw.reference_mean;
    if (sum.mismatch.empty()) sum.mismatch = draw.mismatch;
  };
  for (std::size_t i = 0; i < kOutputs.size(); ++i) {
    const auto member = kOutputs[i].second;
    const bool wide = member == &Results::lse || member == &Results::dbias || member == &Results::dsinks;
    const DType stored = wide ? DType::fp32 : c.dtype;
    pool(theirs_[i], deviation(reference.*member, standard.*member, stored));
    pool(ours_[i], deviation(reference.*member, candidate.*member, stored));
  }
  const Deviation lse = deviation(reference.lse, reference.lse, DType::fp32);
  saved_lse_ = c.dtype == DType::fp32 && c.sk >= rule_.saved_lse_from;
  lse_max_ = std::max(lse_max_, lse.reference_max);
  lse_mean_ = std::max(lse_mean_, lse.reference_mean);
  ++draws_;
}

std::string Comparison::verdict(DType dtype) const {
  const double u = unit_roundoff(dtype);
  std::string text;
  const auto rule = [&](const char* name, const char* which, double ours, double theirs, double floor, double size) {
    if (ours <= rule_.factor * theirs + floor) return;
    text += fmt::format("  {}: {} error {:.3g} > {:.3g} (standard's {:.3g}, {} |ref| {:.3g}, {} draws)\n", name, which,
                        ours / draws_, (rule_.factor * theirs + floor) / draws_, theirs / draws_, which, size / draws_,
                        draws_);
  };
  for (std::size_t i = 0; i < kOutputs.size(); ++i) {
    const char* name = kOutputs[i].first;
    const Deviation &theirs = theirs_[i], &ours = ours_[i];
    if (!theirs.mismatch.empty()) text += fmt::format("  {} of standard: {}\n", name, theirs.mismatch);
    if (!ours.mismatch.empty()) text += fmt::format("  {}: {}\n", name, ours.mismatch);
    const bool gradient = kOutputs[i].second != &Results::o && kOutputs[i].second != &Results::lse;
    const bool extra = gradient && saved_lse_;
    rule(name, "max", ours.max, theirs.max, (4 + (extra ? lse_max_ : 0)) * u * ours.reference_max, ours.reference_max);
    rule(name, "mean", ours.mean, theirs.mean, (1 + (extra ? lse_mean_ / 2 : 0)) * u * ours.reference_mean,
         ours.reference_mean);
  }
  return text;
}

std::string exactness(const Case& c, const Results& reference, const Results& standard, const Results& candidate,
                      const Rule& rule) {
  Comparison single(rule);
  single.add(c, reference, standard, candidate);
  return single.verdict(c.dtype);
}

std::string plausibility(const Case& c, const Results& reference, const Results& standard) {
  // In fp32 this is a sharp test; where scores or weights are rounded to 16 bits, large scores have no limit.
  if (c.dtype != DType::fp32 && c.values == Values::large) return {};
  const double units = c.dtype == DType::bf16 ? 128 : c.values == Values::large ? 65536 : 512;
  std::string text;
  for (const auto& [name, member] : kOutputs) {
    const Deviation found = deviation(reference.*member, standard.*member, DType::fp32);
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
