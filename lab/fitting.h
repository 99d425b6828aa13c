// Which smaller case stands for one that would take too long. The driver (measure.cpp) calls.
#pragma once

#include <functional>

#include "lab/case.h"

namespace strobe::lab {

// The largest case up to `full` that `seconds_of` does within the limit, found by going up from a small one: all
// batches first, then twice the rows. A kernel that gives each batch a block does batches side by side, so that a case
// of fewer would not tell its time; time is taken to grow with the number of scores.
Case fitting_case(const Case& full, double limit, const std::function<double(const Case&)>& seconds_of);

}  // namespace strobe::lab
