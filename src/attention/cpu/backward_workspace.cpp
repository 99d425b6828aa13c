// Lays out the workspace of the backward pass.
#include "attention/cpu/backward_workspace.h"

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
  w.in_work = plan.unit_tasks ? carver.take<UnitInWork>(plan.threads) : nullptr;
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

}  // namespace strobe::cpu
