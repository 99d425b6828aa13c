// How implementations are named and coloured in one report, the same in every chart and table.
#pragma once

#include <map>
#include <span>
#include <string>

#include "report/cells.h"

namespace strobe::report {

class SeriesNames {
 public:
  explicit SeriesNames(std::span<const Cell> cells);

  // "flash2"; where the report has several machines or builds, also what tells them apart: "flash2, NVIDIA H200".
  std::string name(const Cell& cell) const;
  int color(const Cell& cell) const;

 private:
  bool machines_ = false, revisions_ = false, threads_ = false, devices_ = false;  // whether there are several
  std::map<std::string, int> colors_;
};

// "a2d34a8ce0"; "a2d34a8ce0+" of a tree with changes beyond that commit.
std::string short_revision(const std::string& revision);

// "Neoverse-V1, 2 threads; 2026-11-15; 30 to 60 samples a point in 1 launch; build a2d34a8ce0"
std::string caption_of(std::span<const Cell* const> cells);

}  // namespace strobe::report
