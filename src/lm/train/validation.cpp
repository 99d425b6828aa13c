// Computes the validation loss over windows of a file.
#include "lm/train/validation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/divide.h"

namespace strobe::lm {

double Validation::perplexity() const { return std::exp(loss); }
double Validation::bits() const { return loss / std::numbers::ln2; }

SpreadWindows::SpreadWindows(std::int64_t tokens, std::int64_t context, std::int64_t budget)
    : predicted_(tokens - 1),
      context_(context),
      windows_(ceil_div(predicted_, context)),
      count_(budget == 0 || budget >= predicted_ ? windows_ : std::clamp(budget / context, std::int64_t{1}, windows_)) {
}

// Splits the file into count() equal parts and returns the position of the middle window of part `window`.
std::int64_t SpreadWindows::first(std::int64_t window) const {
  return (2 * window + 1) * windows_ / (2 * count_) * context_;
}

std::int64_t SpreadWindows::length(std::int64_t window) const { return std::min(context_, predicted_ - first(window)); }

Validation validate(TrainingBackend& backend, const Settings& settings, const TokenFile& data, std::int64_t budget) {
  const std::int64_t context = settings.shape.context;
  const SpreadWindows windows(data.count(), context, budget);
  Validation result{.of = data.count() - 1};
  double sum = 0;
  for (std::int64_t begin = 0; begin < windows.count(); begin += settings.batch) {
    // Only the last window may be short, so the `counted` valid tokens are at the beginning of the batch.
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(settings.batch * context)), targets(tokens.size());
    std::int64_t counted = 0;
    for (std::int64_t window = begin; window < std::min(begin + settings.batch, windows.count()); ++window) {
      const std::int64_t length = windows.length(window);
      data.read_window(windows.first(window), length, tokens.data() + counted, targets.data() + counted);
      counted += length;
    }
    sum += static_cast<double>(counted) * backend.loss_of_first(tokens.data(), targets.data(), counted);
    result.tokens += counted;
  }
  result.loss = sum / static_cast<double>(result.tokens);
  return result;
}

}  // namespace strobe::lm
