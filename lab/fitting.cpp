// Implements fitting_case(): grows a small case until the next one would take too long.
#include "lab/fitting.h"

#include <algorithm>

namespace strobe::lab {

CourseCase fitting_case(const CourseCase& full, double limit,
                        const std::function<double(const CourseCase&)>& seconds_of) {
  CourseCase probe{"", 1, std::min(128, full.rows), full.dim};
  while (true) {
    const double seconds_per_score = seconds_of(probe) / probe.scores();
    if (seconds_per_score * full.scores() <= limit) return full;
    CourseCase next = probe;
    next.rows = std::min(2 * probe.rows, full.rows);
    if (next.rows == probe.rows) next.batch = std::min(2 * probe.batch, full.batch);
    if (next.scores() == probe.scores() || seconds_per_score * next.scores() > limit) return probe;
    probe = next;
  }
}

}  // namespace strobe::lab
