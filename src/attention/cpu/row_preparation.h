// What the backward pass needs of its rows before any block of keys: LSE and delta, Q and dO packed. LSE of query rows
// is more exact here than the fp32 that the forward pass handed over, if that shows.
#pragma once

#include "attention/cpu/backward_tiles.h"
#include "attention/cpu/plan.h"

namespace strobe::cpu {

inline constexpr double kLog2e64 = 1.44269504088896340736;

// Of the rows of one block.
struct RowStatistics {
  double lse[kMaxPanels * kMaxLanes];
  double typical[kMaxPanels * kMaxLanes] = {};  // log2 of the weights that count most
  float largest[kMaxPanels * kMaxLanes] = {};   // score in a tile's units; only where LSE was computed anew
};

// Whether the LSE of some row is not near (kNearExponent); such a block's LSE was computed anew.
bool has_far_lse(const RowStatistics& statistics, int rows);

// LSE * log2(e) as high + low, for weights 2^(score * factor - high - low). An integer of up to 8 bits added to high is
// exact, which WeightExponent needs (isa/weight_exponent.h). factor is a float, off by a share `excess`; what that
// makes of an exponent of about `typical` is counted in low. Rows without keys have +inf; a huge number does the same
// without making NaN of infinities.
void split_lse(double lse, double excess, double typical, float& high, float& low);

// A weight is exp(score - LSE), so it errs by what LSE lost when it was rounded to fp32. That shows in gradients where
// LSE is large, and where a row's weights are uneven, some near 1 and else almost exact (scores of variance 1 give
// log(keys) + 0.5). In fp32 it shows also where they are few. lse and typical [lanes], as in RowStatistics.
bool lse_rounding_shows(DType dtype, const Lanes& lanes, const double* lse, const double* typical);

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
