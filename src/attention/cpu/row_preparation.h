// Prepares query rows for backward before any key block runs: LSE, delta, packed Q and dO. Recomputes LSE if the
// rounding of the forward's fp32 LSE would affect gradients.
#pragma once

#include "attention/cpu/backward_tiles.h"
#include "attention/cpu/plan.h"

namespace strobe::cpu {

inline constexpr double kLog2e64 = 1.44269504088896340736;

// Statistics of the rows of one block.
struct RowStatistics {
  double lse[kMaxPanels * kMaxLanes];
  double typical[kMaxPanels * kMaxLanes] = {};  // log2 of the dominant probabilities
  float largest[kMaxPanels * kMaxLanes] = {};   // score in a tile's units; set only if LSE was recomputed
};

// True if the LSE of some row is not near (kNearExponent); the LSE of such a block was recomputed.
bool has_far_lse(const RowStatistics& statistics, int rows);

// Splits LSE * log2(e) into high + low, for probabilities 2^(score * factor - high - low). Adding an integer of up to 8
// bits to high is exact, as WeightExponent needs (isa/weight_exponent.h). factor is a float with relative error
// `excess`; low includes the resulting error of an exponent of about `typical`. Rows without keys have lse = +inf,
// which becomes a huge number: the effect is the same and no NaN arises.
void split_lse(double lse, double excess, double typical, float& high, float& low);

// True if the rounding of LSE to fp32 affects gradients. A probability is exp(score - LSE), so it has the rounding
// error of LSE. That matters if LSE is large, or if a row's probabilities are uneven, some near 1 and otherwise almost
// exact (scores of variance 1 give log(keys) + 0.5). In fp32 it also matters with few keys. lse and typical are
// [lanes], as in RowStatistics.
bool lse_rounding_shows(DType dtype, const Lanes& lanes, const double* lse, const double* typical);

class RowPreparation : BackwardTiles {
 public:
  using BackwardTiles::BackwardTiles;

  // Prepares row block `index` of a unit, the u-th of its group.
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
