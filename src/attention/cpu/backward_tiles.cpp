// Implements backward_tiles.h: the workspace of the backward pass, and the packing and the step of BackwardTiles.
#include "attention/cpu/backward_tiles.h"

#include <algorithm>

namespace strobe::cpu {

BackwardWorkspace carve_backward(const Problem& problem, const Plan& plan, Carver& carver) {
  const std::int64_t n = plan.isa->n, keys = plan.block_keys, rows = plan.block_rows, e = plan.element;
  const bool converts = e != 4, transposed = keeps_transposed(plan);
  BackwardWorkspace w{};
  w.scratch = carver.take<BackwardScratch>(plan.threads);
  for (int thread = 0; thread < plan.threads; ++thread) {
    BackwardScratch s{};
    s.k = carver.bytes(keys * plan.d_steps * e);
    s.k_t = carver.bytes(keys * plan.d_rows * e);
    s.v = carver.bytes(keys * plan.dv_steps * e);
    s.dk = carver.take<float>(keys * plan.d_cols);
    s.dv = carver.take<float>(keys * plan.dv_cols);
    s.scores = carver.take<float>(keys * n);
    s.d_scores = converts ? carver.take<float>(keys * n) : nullptr;
    s.slopes = problem.softcap != 0 ? carver.take<float>(keys * n) : nullptr;
    s.words = problem.dropout.p > 0 ? carver.take<std::uint32_t>(keys * n) : nullptr;
    s.ds_n = carver.bytes(keys * rows * e);
    s.p_m = carver.bytes(keys * rows * e);
    s.ds_m = carver.bytes(keys * rows * e);
    s.q = plan.prepack ? nullptr : carver.bytes(rows * plan.d_steps * e);
    s.d_o = plan.prepack ? nullptr : carver.bytes(rows * plan.dv_steps * e);
    s.q_t = transposed ? nullptr : carver.bytes(rows * plan.d_cols * e);
    s.do_t = transposed ? nullptr : carver.bytes(rows * plan.dv_cols * e);
    s.p_tile = e < 4 ? carver.take<float>(keys * rows) : reinterpret_cast<float*>(s.p_m);
    s.ds_tile = e < 4 ? carver.take<float>(keys * rows) : reinterpret_cast<float*>(s.ds_m);
    s.lanes = carver.take<Lanes>(plan.panels);
    s.rows = carver.take<const void*>(std::max(rows, keys));
    if (w.scratch) w.scratch[thread] = s;
  }
  w.in_work = plan.unit_tasks ? carver.take<UnitInFlight>(plan.threads) : nullptr;
  const std::int64_t blocks = plan.group_units * plan.row_blocks;
  w.info = carver.take<RowInfo>(blocks);
  w.q = plan.prepack ? carver.bytes(blocks * rows * plan.d_steps * e) : nullptr;
  w.d_o = plan.prepack ? carver.bytes(blocks * rows * plan.dv_steps * e) : nullptr;
  w.q_t = transposed ? carver.bytes(blocks * rows * plan.d_cols * e) : nullptr;
  w.do_t = transposed ? carver.bytes(blocks * rows * plan.dv_cols * e) : nullptr;
  w.dq = carver.take<float>(blocks * rows * plan.d_rows);
  w.lse_high = carver.take<float>(blocks * rows);
  w.lse_low = carver.take<float>(blocks * rows);
  w.delta = carver.take<float>(blocks * rows);
  w.sink_weight = problem.wants_dsinks ? carver.take<float>(blocks * rows) : nullptr;
  return w;
}

BackwardTiles::KeyBlock BackwardTiles::pack_keys(BackwardScratch& s, const Unit& unit, std::int64_t index) const {
  const std::int64_t first = index * plan_.block_keys;
  const int count = static_cast<int>(std::min<std::int64_t>(plan_.block_keys, unit.extent.seqlen_k - first));
  const int padded = static_cast<int>(round_up(count, isa_.step));
  key_rows(problem_, unit, problem_.k, first, count, padded, s.rows);
  const bool k_odd = pack_(isa_.pack_m, {s.rows, padded, d(), problem_.dtype, 1, s.k});
  pack_(isa_.pack_mt, {s.rows, padded, d(), problem_.dtype, 1, s.k_t});
  key_rows(problem_, unit, problem_.v, first, count, padded, s.rows);
  pack_(isa_.pack_m, {s.rows, padded, dv(), problem_.dtype, 1, s.v});
  return {first, count, padded, index, k_odd};
}

BackwardTiles::Range BackwardTiles::tile_rows(const KeyBlock& keys, const Lanes& lanes) const {
  const std::int64_t lo = std::max<std::int64_t>(lanes.lo_min, keys.first) - keys.first;
  const std::int64_t hi = std::min<std::int64_t>(lanes.hi_max, keys.first + keys.count) - keys.first;
  if (lo >= hi) return {0, 0};
  return {static_cast<int>(lo / isa_.step * isa_.step), static_cast<int>(round_up(hi, isa_.step))};
}

bool BackwardTiles::pack_panel(BackwardScratch& s, const Unit& unit, std::int64_t first, const Lanes& lanes,
                               const float* delta, const Panel& to) const {
  const int n = isa_.n;
  query_rows(problem_, unit, problem_.q, first, lanes.count, n, s.rows);
  const bool q_odd = pack_(isa_.pack_n, {s.rows, n, d(), problem_.dtype, 1, to.q});
  query_rows(problem_, unit, problem_.d_o, first, lanes.count, n, s.rows);
  for (int lane = 0; lane < lanes.count; ++lane) {
    if (leaves_out_dp(lanes, lane, delta[lane])) s.rows[lane] = nullptr;
  }
  return pack_(isa_.pack_n, {s.rows, n, dv(), problem_.dtype, do_col_stride(), to.d_o}) || q_odd;
}

void BackwardTiles::pack_transposed(BackwardScratch& s, const Unit& unit, const RowBlock& rows,
                                    const Transposed& to) const {
  query_rows(problem_, unit, problem_.q, rows.first, rows.count, plan_.block_rows, s.rows);
  pack_(isa_.pack_nt, {s.rows, plan_.block_rows, d(), problem_.dtype, 1, to.q});
  query_rows(problem_, unit, problem_.d_o, rows.first, rows.count, plan_.block_rows, s.rows);
  pack_(isa_.pack_nt, {s.rows, plan_.block_rows, dv(), problem_.dtype, do_col_stride(), to.d_o});
}

void BackwardTiles::step(BackwardScratch& s, const KeyBlock& keys, const CpuScoreOptions& options, int p,
                         const Range& range, std::int64_t block, Use use, float* delta_sum) const {
  const std::int64_t at = std::int64_t{p} * isa_.n * isa_.m * plan_.element;  // offset in an M panel
  const std::int64_t row = block * plan_.block_rows + p * isa_.n;
  BackwardStep a{};
  a.k = s.k;
  a.v = s.v;
  a.key_begin = static_cast<int>(keys.first);
  a.key_count = keys.count;
  a.first = range.first;
  a.last = range.last;
  a.d_steps = plan_.d_steps;
  a.dv_steps = plan_.dv_steps;
  const Panel rows = panel(s, block, p);
  a.q = rows.q;
  a.d_o = rows.d_o;
  a.lanes = &s.lanes[p];
  a.options = &options;
  a.whole = plan_.whole_rows;
  float sinks[kMaxLanes];
  if (a.whole && problem_.sinks) {
    for (int lane = 0; lane < isa_.n; ++lane) sinks[lane] = problem_.sinks[a.lanes->head[lane]];
    a.sinks = sinks;
  }
  float max[kMaxLanes], sum[kMaxLanes];
  a.max = max;
  a.sum = sum;
  a.far = workspace_.info[block].far;
  a.lse_high = workspace_.lse_high + row;
  a.lse_low = workspace_.lse_low + row;
  a.delta = workspace_.delta + row;
  a.scores = s.scores;
  a.d_scores = s.d_scores ? s.d_scores : reinterpret_cast<float*>(ds_n(s, p));
  a.slopes = s.slopes;
  a.words = s.words;
  a.ds_n = ds_n(s, p);
  a.p_m = s.p_m + at;
  a.ds_m = s.ds_m + at;
  a.m_stride = std::ptrdiff_t{plan_.block_rows} * isa_.m;
  a.sum_chunk = plan_.sum_chunk;
  a.delta_sum = delta_sum;
  if (use == Use::tiles) {
    a.p_tile = s.p_tile + std::int64_t{p} * plan_.block_keys * isa_.n;
    a.ds_tile = s.ds_tile + std::int64_t{p} * plan_.block_keys * isa_.n;
  }
  isa_.backward_step(a);
  for (int lane = 0; a.sinks && workspace_.sink_weight && lane < a.lanes->count; ++lane) {
    const double weight = sum[lane] == 0 ? 0.0 : std::exp(double{sinks[lane]} - max[lane]) / sum[lane];
    workspace_.sink_weight[row + lane] = static_cast<float>(weight);
  }
}

}  // namespace strobe::cpu
