// `strobe lm train --ddp NAME --verify`: a few steps on ranks and in one process, compared. Nothing is written.
#pragma once

#include "cli/lm/train_options.h"

namespace strobe::cli {

// Called on every rank; rank 0 prints. Returns the exit code: 1 if a bound is exceeded.
int run_lm_verify(const TrainFlags& flags);

}  // namespace strobe::cli
