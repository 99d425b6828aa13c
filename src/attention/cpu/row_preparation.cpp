// Implements RowPreparation: takes LSE and O from the forward pass, and recomputes LSE and delta if their rounding
// would affect gradients.
#include "attention/cpu/row_preparation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

namespace strobe::cpu {

namespace {
constexpr float kInfinity = std::numeric_limits<float>::infinity();
}

void RowPreparation::prepare(BackwardScratch& s, const Unit& unit, std::int64_t u, std::int64_t index) const {
  if (index >= row_blocks_of(problem_, plan_, unit.extent.seqlen_q)) return;
  const RowBlock rows = row_block(problem_, plan_, unit.extent.seqlen_q, index);
  const std::int64_t block = block_at(u, index);
  RowInfo& info = *new (&workspace_.info[block]) RowInfo{};
  std::int32_t lo = std::numeric_limits<std::int32_t>::max(), hi = 0;
  RowStatistics statistics;
  double* const lse = statistics.lse;
  bool refine = false;
  for (int p = 0; p < plan_.panels; ++p) {
    const int n = isa_.n, count = std::clamp(rows.count - p * n, 0, n);
    const std::int64_t first = rows.first + p * n, at = block * plan_.block_rows + p * n;
    Lanes& lanes = s.lanes[p];
    lanes.count = 0;
    prepare_statistics(unit, first, count, lse + p * n, workspace_.delta + at);
    if (count > 0) {
      fill_lanes(problem_, unit, first, count, n, lanes);
      lo = std::min(lo, lanes.lo_min);
      hi = std::max(hi, lanes.hi_max);
      for (int lane = 0; lane < n; ++lane) {
        const auto keys = static_cast<float>(std::max(1, lanes.hi[lane] - lanes.lo[lane]));
        statistics.typical[p * n + lane] = -std::log2(keys);
      }
      refine |= wants_refined_lse(lanes, lse + p * n, statistics.typical + p * n);
      for (int lane = 0; lane < count; ++lane) {
        float& delta = workspace_.delta[at + lane];
        delta -= lanes.d_lse[lane];
        if (leaves_out_dp(lanes, lane, delta)) delta = -lanes.d_lse[lane];
      }
    }
    info.odd |= pack_panel(s, unit, first, lanes, workspace_.delta + at, panel(s, block, p));
  }
  if (refine) refine_lse(s, unit, block, static_cast<int>(ceil_div(rows.count, isa_.n)), lo, hi, statistics);
  info.far = refine && has_far_lse(statistics, rows.count);
  keep_lse(unit, rows, statistics, info.far, block * plan_.block_rows);
  if (refine) refine_delta(s, unit, rows, block, statistics);
  info.first_block = static_cast<std::int32_t>(lo / plan_.block_keys);
  info.last_block = static_cast<std::int32_t>(ceil_div(hi, plan_.block_keys));
  info.turn.store(info.first_block, std::memory_order_relaxed);
  if (workspace_.q_t) pack_transposed(s, unit, rows, transposed(block));
  std::fill_n(dq_panel(block, 0), std::int64_t{plan_.block_rows} * plan_.d_rows, 0.0f);
}

// Sets LSE and delta of a panel's rows. LSE is +inf for rows without keys and for lanes past the last row, so that
// their probabilities are 0.
void RowPreparation::prepare_statistics(const Unit& unit, std::int64_t first, int count, double* lse,
                                        float* delta) const {
  const void *outputs[kMaxLanes], *gradients[kMaxLanes];
  query_rows(problem_, unit, problem_.o_in, first, count, count, outputs);
  query_rows(problem_, unit, problem_.d_o, first, count, count, gradients);
  isa_.dot_rows({gradients, outputs, count, dv(), problem_.dtype, do_col_stride(), delta});
  std::fill(delta + count, delta + isa_.n, 0.0f);
  std::fill(lse, lse + isa_.n, double{kInfinity});
  for (int lane = 0; lane < count; ++lane) {
    const std::int64_t row = first + lane;
    const float given = problem_.lse_in[problem_.lse_index(unit.b, unit.head_of(problem_, row), unit.extent.q_begin,
                                                           row % unit.extent.seqlen_q)];
    if (given != -kInfinity) lse[lane] = given;
  }
}

bool RowPreparation::wants_refined_lse(const Lanes& lanes, const double* lse, const double* typical) const {
  if (plan_.whole_rows) return false;                                        // the tile's softmax is recomputed anyway
  if (problem_.dtype == DType::fp32 && workspace_.sink_weight) return true;  // errors do not average out in dsinks
  return lse_rounding_shows(problem_.dtype, lanes, lse, typical);
}

// Recomputes the LSE of a row block's panels from their scores, which takes an additional matmul.
void RowPreparation::refine_lse(BackwardScratch& s, const Unit& unit, std::int64_t block, int panels, std::int32_t lo,
                                std::int32_t hi, RowStatistics& statistics) const {
  CpuScoreOptions options = score_options(problem_, unit);
  options.dropout = false;   // dropout does not affect LSE
  options.exact_max = true;  // so that a dominant probability is exactly 1 and its dS exactly 0
  float max[kMaxPanels * kMaxLanes], sum[kMaxPanels * kMaxLanes];
  std::fill_n(max, plan_.block_rows, -kInfinity);
  std::fill_n(sum, plan_.block_rows, 0.0f);
  for (std::int64_t b = lo / plan_.block_keys; b < ceil_div(hi, plan_.block_keys); ++b) {
    const std::int64_t first = b * plan_.block_keys;
    const int count = static_cast<int>(std::min<std::int64_t>(plan_.block_keys, unit.extent.seqlen_k - first));
    const int padded = static_cast<int>(round_up(count, isa_.step));
    key_rows(problem_, unit, problem_.k, first, count, padded, s.rows);
    pack_(isa_.pack_m, {s.rows, padded, d(), problem_.dtype, 1, s.k});
    ForwardStep step{};  // dv_rows is 0, so V is not read
    step.k = step.v = s.k;
    step.o = s.dk;
    step.key_begin = static_cast<int>(first);
    step.key_count = count;
    step.block_keys = padded;
    step.d_steps = plan_.d_steps;
    step.options = &options;
    step.scores = s.scores;
    step.probabilities = s.ds_n;
    step.dtype = problem_.dtype;
    step.sum_chunk = plan_.sum_chunk;
    for (int p = 0; p < panels; ++p) {
      step.q = panel(s, block, p).q;
      step.lanes = &s.lanes[p];
      step.max = max + p * isa_.n;
      step.sum = sum + p * isa_.n;
      isa_.forward_step(step);
    }
  }
  const LogitOfMax logit_of_max(isa_, options);
  for (int p = 0; p < panels; ++p) {
    for (int lane = 0; lane < s.lanes[p].count; ++lane) {
      const int r = p * isa_.n + lane;
      if (!std::isfinite(statistics.lse[r])) continue;
      const double top = logit_of_max(max[r]);
      double beyond = std::log(double{sum[r]});  // LSE minus the largest logit, which may be huge
      if (problem_.sinks) {
        const double sink = problem_.sinks[s.lanes[p].head[lane]] - top, largest = std::max(sink, beyond);
        beyond = largest + std::log(std::exp(sink - largest) + std::exp(beyond - largest));
      }
      if (!std::isfinite(top + beyond)) continue;
      statistics.lse[r] = top + beyond;
      statistics.largest[r] = max[r];
      statistics.typical[r] = -beyond * kLog2e64;
    }
  }
}

// Recomputes delta of rows in which one probability dominates. In these rows dP - delta cancels, so delta must be
// computed from the same dP.
void RowPreparation::refine_delta(BackwardScratch& s, const Unit& unit, const RowBlock& rows, std::int64_t block,
                                  const RowStatistics& statistics) const {
  const auto outweighs = [&](int r) { return statistics.typical[r] > -1; };
  const auto count = [&](int p) { return std::clamp(rows.count - p * isa_.n, 0, isa_.n); };
  std::int32_t lo = std::numeric_limits<std::int32_t>::max(), hi = 0;
  for (int p = 0; p < plan_.panels; ++p) {
    for (int lane = 0; lane < count(p); ++lane) {
      if (!outweighs(p * isa_.n + lane) || s.lanes[p].lo[lane] >= s.lanes[p].hi[lane]) continue;
      lo = std::min(lo, s.lanes[p].lo[lane]);
      hi = std::max(hi, s.lanes[p].hi[lane]);
    }
  }
  const CpuScoreOptions options = score_options(problem_, unit);
  float sum[kMaxPanels * kMaxLanes] = {};
  for (std::int64_t b = lo / plan_.block_keys; b < ceil_div(hi, plan_.block_keys); ++b) {
    const KeyBlock keys = pack_keys(s, unit, b);
    for (int p = 0; p < plan_.panels && count(p) > 0; ++p) {
      const Range range = tile_rows(keys, s.lanes[p]);
      if (range.first < range.last) step(s, keys, options, p, range, block, Use::delta, sum + p * isa_.n);
    }
  }
  for (int p = 0; p < plan_.panels; ++p) {
    for (int lane = 0; lane < count(p); ++lane) {
      const int r = p * isa_.n + lane;
      float& delta = workspace_.delta[block * plan_.block_rows + r];
      if (outweighs(r) && std::isfinite(sum[r]) && !leaves_out_dp(s.lanes[p], lane, delta)) {
        delta = sum[r] - s.lanes[p].d_lse[lane];
      }
    }
  }
}

// Writes LSE as lse_high and lse_low (see BackwardStep), and the probabilities of the sinks.
void RowPreparation::keep_lse(const Unit& unit, const RowBlock& rows, const RowStatistics& statistics, bool far,
                              std::int64_t at) const {
  const CpuScoreOptions options = score_options(problem_, unit);
  const double excess = options.unit == 0 ? 0 : options.exponent_factor() / (options.unit * kLog2e64) - 1;
  for (int r = 0; r < plan_.block_rows; ++r) {
    float &high = workspace_.lse_high[at + r], &low = workspace_.lse_low[at + r];
    split_lse(statistics.lse[r], excess, statistics.typical[r], high, low);
    if (far) {
      low = std::isfinite(statistics.lse[r]) ? static_cast<float>(-statistics.typical[r]) : high;
      high = statistics.largest[r];
    }
    if (workspace_.sink_weight && r < rows.count) {
      const double sink = problem_.sinks[unit.head_of(problem_, rows.first + r)];
      workspace_.sink_weight[at + r] = static_cast<float>(std::exp(sink - statistics.lse[r]));
    }
  }
}

void split_lse(double lse, double excess, double typical, float& high, float& low) {
  const double exact = std::min(lse * kLog2e64, 1e30);
  int exponent = 8;
  if (!(std::abs(exact) < 128)) std::frexp(std::abs(exact) + 128, &exponent);
  const double grain = exponent == 8 ? 0x1p-16 : std::ldexp(1.0, exponent - 24);
  high = static_cast<float>(std::nearbyint(exact / grain) * grain);
  low = static_cast<float>(exact - high + excess * (exact + typical));
}

bool has_far_lse(const RowStatistics& statistics, int rows) {
  return std::any_of(statistics.lse, statistics.lse + rows,
                     [](double lse) { return std::isfinite(lse) && std::abs(lse) * kLog2e64 >= kNearExponent; });
}

bool lse_rounding_shows(DType dtype, const Lanes& lanes, const double* lse, const double* typical) {
  constexpr std::int32_t kFewKeys = 128;
  const bool fp32 = dtype == DType::fp32;
  if (fp32 && lanes.hi_max - lanes.lo_min <= kFewKeys) return true;
  for (int lane = 0; lane < lanes.count; ++lane) {
    const double size = std::abs(lse[lane]), excess = lse[lane] + typical[lane] / kLog2e64;
    if (size < 4 || !std::isfinite(size)) continue;
    if (size >= 16 || excess > 2 || (fp32 && excess < -2)) return true;
  }
  return false;
}

}  // namespace strobe::cpu
