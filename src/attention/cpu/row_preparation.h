// Prepares query rows for backward.cpp before any key block runs: computes delta, converts LSE and packs Q and dO.
// Recomputes LSE if the rounding of the forward's fp32 LSE would affect gradients. plan.h defines units, row blocks and
// panels.
#pragma once

#include "attention/cpu/backward_tiles.h"
#include "attention/cpu/plan.h"

namespace strobe::cpu {

inline constexpr double kLog2e64 = 1.44269504088896340736;

// Statistics of the rows of one block.
struct RowStatistics {
  double lse[kMaxPanels * kMaxLanes];
  // log2 of the row's largest probability if LSE was recomputed, else log2(1 / keys).
  double typical[kMaxPanels * kMaxLanes] = {};
  float largest[kMaxPanels * kMaxLanes] = {};  // largest score in a tile's units; set only if LSE was recomputed
};

// Returns true if the LSE of at least one row, as a base-2 exponent, has a magnitude of kNearExponent or more.
// RowPreparation has recomputed the LSE of such a row block.
bool has_far_lse(const RowStatistics& statistics, int rows);

// Splits LSE * log2(e) into high + low, for probabilities 2^(score * factor - high - low). Adding an integer of up to 8
// bits to high is exact, as ProbabilityExponent needs (isa/probability_exponent.h). `excess` is the relative rounding
// error of the float factor; low corrects for it, assuming a probability of 2^typical. Rows without keys have lse =
// +inf, which becomes a huge number, so their probabilities are 0 without causing a NaN.
void split_lse(double lse, double excess, double typical, float& high, float& low);

// Returns true if the rounding of LSE to fp32 affects gradients. A probability is exp(logit - LSE), so its relative
// error is the rounding error of LSE. That matters if LSE is large. It also matters if LSE differs much from log(keys):
// some probabilities are then near 1 and would be almost exact without this error. (Logits of variance 1 give log(keys)
// + 0.5.) In fp32 it also matters with few keys. lse and typical are [lanes], as in RowStatistics.
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
