// `strobe lm train --ddp NAME --verify`: a few steps on ranks and on one process, beside each other; nothing is
// written.
#pragma once

#include "cli/lm_train_options.h"

namespace strobe::cli {

// On every rank; rank 0 tells. The exit code: 1 where the ranks do not train to what one process does.
int run_lm_verify(const TrainFlags& flags);

}  // namespace strobe::cli
