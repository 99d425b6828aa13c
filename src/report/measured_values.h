// Computes the values of the measures of limits.h for a pass of a cell. judge() uses this.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "report/limits.h"

namespace strobe::report {

// One pass of a cell or, without a pass, the whole cell.
struct Place {
  const Cell* cell;
  std::optional<Pass> pass;
  bool operator<(const Place& other) const { return std::pair(cell, pass) < std::pair(other.cell, other.pass); }
};

struct Measured {
  std::optional<double> value;
  std::string reason{};      // why there is no value
  bool is_left_out = false;  // true if the reference ran out of memory, so that the limit does not apply
};

// True if the requirement applies to this implementation and cell.
bool is_selected(const Requirement& requirement, const Cell& cell);

// Computes measures of cells. Refers to `cells` to find reference cells, so `cells` must outlive this object.
class MeasuredValues {
 public:
  MeasuredValues(std::span<const Cell> cells, const Comparison* comparison, Estimate estimate);

  std::optional<double> seconds(const Place& at) const { return at.cell->seconds(*at.pass, estimate_); }
  std::optional<double> rate(const Place& at) const { return at.cell->flop_rate(*at.pass, estimate_); }
  Measured of(const Bound& bound, const Place& at) const;

 private:
  const Cell* find_cell(const std::string& key) const;
  Measured against_best(const Bound& bound, const Place& at) const;
  Measured share_of_plain(const Place& at) const;
  Measured change(const Place& at, double Ratio::*end) const;
  std::optional<double> byte_rate(const Place& at) const;

  const Comparison* comparison_;
  Estimate estimate_;
  std::map<std::string, const Cell*> by_key_;
};

}  // namespace strobe::report
