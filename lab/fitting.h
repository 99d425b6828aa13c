// Chooses a smaller case instead of one that would take too long. Used by measure.cpp.
#pragma once

#include <functional>

#include "lab/case.h"

namespace strobe::lab {

// Returns the largest case up to `full` that `seconds_of` runs within `limit` seconds. It first tries one batch of at
// most 128 rows, then doubles the rows, then the batches. Time is assumed to grow with the number of scores. With fewer
// batches the time per score is about the same: the rungs from `shared` to `registers` compute batches one after the
// other. With fewer rows N it is longer if a launch of N / 32 blocks does not fill the GPU.
CourseCase fitting_case(const CourseCase& full, double limit,
                        const std::function<double(const CourseCase&)>& seconds_of);

}  // namespace strobe::lab
