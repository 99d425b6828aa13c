// What the backward pass needs of its rows before any block of keys is met: LSE and delta, Q and dO packed.
#pragma once

#include "attention/cpu/backward_tiles.h"
#include "attention/cpu/row_statistics.h"

namespace strobe::cpu {

class RowPreparation : BackwardTiles {
 public:
  using BackwardTiles::BackwardTiles;

  // Row block `index` of a unit, the u-th of its group.
  void prepare(BackwardScratch& s, const Unit& unit, std::int64_t u, std::int64_t index) const;

 private:
  void prepare_statistics(const Unit& unit, std::int64_t first, int count, double* lse, float* delta) const;
  bool wants_refined_lse(const Lanes& lanes, const double* lse, const double* typical) const;
  void refine_lse(BackwardScratch& s, const Unit& unit, std::int64_t block, int panels, std::int32_t lo,
                  std::int32_t hi, RowStatistics& statistics) const;
  void refine_delta(BackwardScratch& s, const Unit& unit, const RowBlock& rows, std::int64_t block,
                    const RowStatistics& statistics) const;
  void keep_lse(const Unit& unit, const RowBlock& rows, const RowStatistics& statistics, bool far,
                std::int64_t at) const;
};

}  // namespace strobe::cpu
