// Valid ranges of a run's settings. Flags and files are checked against the same table.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace strobe::lm {

struct IntegerRange {
  const char* field;  // its name in files
  std::int64_t least, most;
};

// Values in [least, below), or in (least, below) if `least` is excluded.
struct NumberRange {
  const char* field;
  double least, below;
  bool excludes_least = false;
};

inline constexpr std::int64_t kMostSteps = 100'000'000;
inline constexpr double kLeastEps = 1e-37;  // a normal fp32 value: with a smaller one AdamW could divide by zero

inline constexpr IntegerRange kBatchRange{"batch", 1, 100'000'000}, kStepsRange{"steps", 1, kMostSteps},
    kSeedRange{"seed", 0, std::numeric_limits<std::int64_t>::max()}, kWarmupRange{"lr_warmup", 0, kMostSteps},
    kTokensRange{"data_tokens", 0, std::numeric_limits<std::int64_t>::max()},
    kChecksumRange{"data_crc32", 0, std::numeric_limits<std::uint32_t>::max()},
    kCheckpointEveryRange{"checkpoint_every", 0, kMostSteps}, kKeepRange{"keep", 0, kMostSteps},
    kValidationEveryRange{"val_every", 0, kMostSteps},
    kValidationTokensRange{"val_tokens", 0, std::numeric_limits<std::int64_t>::max()};

inline constexpr NumberRange kRateRange{"lr", 0, 1e6}, kLeastRateRange{"lr_min", 0, 1e6}, kBeta1Range{"beta1", 0, 1},
    kBeta2Range{"beta2", 0, 1}, kEpsRange{"eps", kLeastEps, 1}, kDecayRange{"decay", 0, 1e6},
    kClipRange{"clip", 0, 1e30};

// Source of a value. Errors name a field as in the file, "lr_min", or as a flag, "--lr-min".
enum class Source { file, flag };
std::string shown(const char* field, Source source);

// Return the value. Throw Error(invalid_argument) with the field, the value and the valid range; NaN is in no range.
std::int64_t checked(const IntegerRange& range, std::int64_t value, Source source = Source::file);
double checked(const NumberRange& range, double value, Source source = Source::file);

}  // namespace strobe::lm
