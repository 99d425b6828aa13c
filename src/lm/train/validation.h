// Computes the validation loss of a model on a file, over windows that do not overlap and are spread over the whole
// file. Trainer::validate() calls it.
#pragma once

#include <cstdint>

#include "lm/data/token_file.h"
#include "lm/train/settings.h"
#include "lm/train/training_backend.h"

namespace strobe::lm {

struct Validation {
  double loss = 0;          // mean cross-entropy per predicted token, in nats
  std::int64_t tokens = 0;  // predicted tokens
  std::int64_t of = 0;      // tokens of the whole file that can be predicted: all except its first

  double perplexity() const;
  double bits() const;  // per predicted token
};

// The windows of `context` tokens that a validation reads: all windows of the file, or budget / context of them,
// evenly spread. The last window of the file may be shorter.
class SpreadWindows {
 public:
  // `tokens` is the size of the file, at least 2. `budget` is the number of tokens to predict; 0: all. At least one
  // window is read.
  SpreadWindows(std::int64_t tokens, std::int64_t context, std::int64_t budget);

  std::int64_t count() const { return count_; }
  std::int64_t first(std::int64_t window) const;   // position of the window's first token; ascending
  std::int64_t length(std::int64_t window) const;  // predicted tokens

 private:
  std::int64_t predicted_, context_, windows_, count_;
};

// Computes the validation loss with the forward pass only. With several ranks, all ranks call it with the same
// arguments.
Validation validate(TrainingBackend& backend, const Settings& settings, const TokenFile& data, std::int64_t budget);

}  // namespace strobe::lm
