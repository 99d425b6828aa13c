// Chooses a smaller case instead of one that would take too long. Used by measure.cpp.
#pragma once

#include <functional>

#include "lab/case.h"

namespace strobe::lab {

// Returns the largest case up to `full` that `seconds_of` runs within `limit` seconds. It first tries one batch of at
// most 128 rows, then doubles the rows, then the batches. Time is assumed to grow with the number of scores. A case of
// fewer batches is as fast per score as the full one, because the rungs from `shared` to `registers` compute batches
// one after the other. A case of fewer rows is slower per score if its N / 32 blocks do not fill the GPU.
CourseCase fitting_case(const CourseCase& full, double limit,
                        const std::function<double(const CourseCase&)>& seconds_of);

}  // namespace strobe::lab
