// Validation loss of a model on a file, over windows without overlap that are spread over the whole file.
// Trainer::validate calls it.
#pragma once

#include <cstdint>

#include "lm/data/token_file.h"
#include "lm/train/learner.h"
#include "lm/train/settings.h"

namespace strobe::lm {

struct Validation {
  double loss = 0;          // mean cross-entropy per predicted token, in nats
  std::int64_t tokens = 0;  // predicted tokens
  std::int64_t of = 0;      // predicted tokens of the whole file: all except its first

  double perplexity() const;
  double bits() const;  // per predicted token
};

// Windows of `context` tokens that a validation reads: all of the file, or `budget` / context of them at equal
// distances. The last window of the file may be shorter.
class SpreadWindows {
 public:
  // tokens: size of the file, at least 2. budget: predicted tokens, 0 for all. At least one window is read.
  SpreadWindows(std::int64_t tokens, std::int64_t context, std::int64_t budget);

  std::int64_t count() const { return count_; }
  std::int64_t first(std::int64_t window) const;   // first token of the window; ascending
  std::int64_t length(std::int64_t window) const;  // predicted tokens

 private:
  std::int64_t predicted_, context_, windows_, count_;
};

// Computes the validation loss with the forward pass only. Collective with several ranks, with the same arguments.
Validation validate(Learner& learner, const Settings& settings, const TokenFile& data, std::int64_t budget);

}  // namespace strobe::lm
