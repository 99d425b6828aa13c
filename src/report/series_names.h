// Assigns names and colours to implementations, the same in every chart and table of a report.
#pragma once

#include <map>
#include <span>
#include <string>

#include "report/cells.h"

namespace strobe::report {

class SeriesNames {
 public:
  explicit SeriesNames(std::span<const Cell> cells);

  // "flash2"; with several machines or builds also the part that distinguishes them: "flash2, NVIDIA H200".
  std::string name(const Cell& cell) const;
  int color(const Cell& cell) const;

 private:
  int free_color(int preferred) const;

  bool machines_ = false, revisions_ = false, threads_ = false, devices_ = false;  // true if the report has several
  std::map<std::string, int> colors_;
};

// Returns "a2d34a8ce0", or "a2d34a8ce0+" if the build had uncommitted changes.
std::string short_revision(const std::string& revision);

// "Neoverse-V1, 2 threads; 2026-11-15; 30 to 60 samples per point in 1 launch; build a2d34a8ce0"
std::string caption_of(std::span<const Cell* const> cells);

}  // namespace strobe::report
