// Chooses a smaller case instead of one that would take too long. Used by measure.cpp.
#pragma once

#include <functional>

#include "lab/case.h"

namespace strobe::lab {

// Returns the largest case up to `full` that `seconds_of` runs within the limit. The first try is one batch of 128
// rows; then rows are doubled, then batches. The rungs from `shared` to `registers` compute batches one after the
// other, with N / 32 blocks per launch. So a case of fewer batches is as fast per score as the full one. A case of
// fewer rows is slower if its blocks do not fill the GPU. Time is assumed to grow with the number of scores.
Case fitting_case(const Case& full, double limit, const std::function<double(const Case&)>& seconds_of);

}  // namespace strobe::lab
