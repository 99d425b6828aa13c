// Chooses a smaller case instead of one that would take too long. Used by measure.cpp.
#pragma once

#include <functional>

#include "lab/case.h"

namespace strobe::lab {

// Returns `full`, or a smaller case if `full` would take more than `limit` seconds. `seconds_of` runs a case and
// returns its time. Runs one batch of at most 128 rows first, then doubles the rows, then the batches. Stops when the
// next case is predicted to take more than `limit`. Predictions assume that time grows with the number of scores.
//
// A smaller case has all rows of `full` if possible, because the time per score depends on the rows: with N rows a
// launch has N / 32 blocks, which may not fill the GPU. It hardly depends on the batches in the rungs from `shared` to
// `registers`, which compute batches one after the other.
CourseCase fitting_case(const CourseCase& full, double limit,
                        const std::function<double(const CourseCase&)>& seconds_of);

}  // namespace strobe::lab
