// Implements memory_advice() by predicting the memory with smaller batches, recomputation and bf16.
#include "lm/plan/memory_advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "lm/plan/device_memory.h"

namespace strobe::lm {
namespace {

bool fits(const BenchCase& one, std::size_t free) { return predicted_bytes(one) <= free; }

// Returns the largest batch below that of `one` that fits; 0 if none does.
std::int64_t fitting_batch(BenchCase one, std::size_t free) {
  std::int64_t known = 0, above = one.batch;  // `above` does not fit
  while (above - known > 1) {
    one.batch = known + (above - known) / 2;
    (fits(one, free) ? known : above) = one.batch;
  }
  return known;
}

}  // namespace

std::string memory_advice(const BenchCase& one, std::size_t free) {
  std::vector<std::string> changes;
  if (const std::int64_t batch = fitting_batch(one, free); batch > 0)
    changes.push_back(fmt::format("--batch {}", batch));
  BenchCase recomputed = one;
  recomputed.recompute = Recompute::block;
  const bool can_recompute = one.recompute != Recompute::block && gradient_memory_of(one) != GradientMemory::none;
  if (can_recompute && fits(recomputed, free)) changes.emplace_back("--recompute block");
  BenchCase narrow = one;
  narrow.precision = Precision::bf16;
  const bool is_wide = one.precision == Precision::fp32 || one.precision == Precision::tf32;
  if (is_wide && fits(narrow, free)) changes.emplace_back("--precision bf16");
  if (changes.empty() && can_recompute) {
    const std::int64_t batch = fitting_batch(recomputed, free);
    if (batch > 0) changes.push_back(fmt::format("--recompute block --batch {}", batch));
  }
  if (changes.empty()) return "no smaller batch fits; valid: a smaller model or --context";
  return fmt::format("valid: {}", fmt::join(changes, " or "));
}

}  // namespace strobe::lm
