// flash2's backward pass on the CPU. For each group of units: prepare (delta = sum of dO * O; Q and dO packed, where
// that is not too much to keep), then one task per block of keys, which keeps its dK and dV and adds to dQ, then dQ to
// the caller's rows.
// Tasks add to the dQ of a row block strictly in the order of their key blocks (`turn`), whatever thread runs them:
// five products instead of the seven of a second pass, no atomics on data, and bitwise the same for any thread count.
#include <cmath>
#include <limits>
#include <thread>

#include "attention/cpu/backward_workspace.h"
#include "attention/cpu/flash2.h"
#include "attention/cpu/row_statistics.h"
#include "core/half.h"
#include "device/host/thread_pool.h"

namespace strobe::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Backward {
 public:
  Backward(const Problem& problem, const Plan& plan, const BackwardWorkspace& workspace)
      : problem_(problem), plan_(plan), isa_(*plan.isa), workspace_(workspace) {}

  void run() {
    clear_extra_gradients();
    for (std::int64_t first = 0; first < plan_.units; first += plan_.group_units) {
      const std::int64_t units = std::min(plan_.group_units, plan_.units - first);
      parallel_for(plan_.threads, units * plan_.row_blocks, [&](int thread, std::int64_t task) {
        prepare(workspace_.scratch[thread], unit_at(problem_, first + task % units), task % units, task / units);
      });
      // Key block by key block over all units: the first ones of a causal mask meet most rows, and neighbours in the
      // order belong to different units, so that they seldom wait for each other's turn.
      if (bias_gradient_shared()) {
        const std::int64_t sets = sets_of_units();
        parallel_for(plan_.threads, sets * plan_.key_blocks, [&](int thread, std::int64_t task) {
          for (std::int64_t u = 0; u < units; ++u) {
            if (set_of_unit(first + u) == task % sets) work(workspace_.scratch[thread], first + u, u, task / sets);
          }
        });
      } else {
        parallel_for(plan_.threads, units * plan_.key_blocks, [&](int thread, std::int64_t task) {
          work(workspace_.scratch[thread], first + task % units, task % units, task / units);
        });
      }
      parallel_for(plan_.threads, units * plan_.row_blocks, [&](int thread, std::int64_t task) {
        finish(workspace_.scratch[thread], unit_at(problem_, first + task % units), task % units, task / units);
      });
      if (problem_.dsinks) add_to_sink_gradients(first, units);
    }
  }

 private:
  // Whether several units add to the same element of dbias; then one task does a key block for all of them in order.
  bool bias_gradient_shared() const { return sequences_share_dbias() || heads_share_dbias(); }
  bool sequences_share_dbias() const {
    return problem_.dbias.data && problem_.batch > 1 && problem_.dbias.stride[0] == 0;
  }
  bool heads_share_dbias() const {
    return problem_.dbias.data && problem_.heads_kv > 1 && problem_.dbias.stride[1] == 0;
  }
  // Units that add to the same elements are a set: those of a head, of a sequence, or all.
  std::int64_t sets_of_units() const {
    return (sequences_share_dbias() ? 1 : problem_.batch) * (heads_share_dbias() ? 1 : problem_.heads_kv);
  }
  std::int64_t set_of_unit(std::int64_t unit) const {
    const std::int64_t b = sequences_share_dbias() ? 0 : unit / problem_.heads_kv;
    const std::int64_t h = heads_share_dbias() ? 0 : unit % problem_.heads_kv;
    return b * (heads_share_dbias() ? 1 : problem_.heads_kv) + h;
  }

  void clear_extra_gradients() const {
    if (problem_.dsinks) std::fill_n(problem_.dsinks, problem_.heads_q, 0.0f);
    if (!problem_.dbias.data) return;
    const auto& shape = problem_.dbias.shape;
    const auto& stride = problem_.dbias.stride;
    parallel_for(problem_.threads, shape[0] * shape[1] * shape[2], [&](int, std::int64_t row) {
      const std::int64_t b = row / (shape[1] * shape[2]), h = row / shape[2] % shape[1], i = row % shape[2];
      float* first = static_cast<float*>(problem_.dbias.data) + b * stride[0] + h * stride[1] + i * stride[2];
      std::fill_n(first, shape[3], 0.0f);
    });
  }

  // Index of a row block among all of the group; arrays per row block follow from it.
  std::int64_t block_at(std::int64_t u, std::int64_t index) const { return u * plan_.row_blocks + index; }
  // Panel p of a row block: in the workspace, or in the thread's scratch where nothing is kept.
  struct Panel {
    char* q;
    char* d_o;
  };
  Panel panel(const BackwardScratch& s, std::int64_t block, int p) const {
    const std::int64_t at = (plan_.prepack ? block * plan_.panels + p : p) * std::int64_t{isa_.n} * plan_.element;
    return {(plan_.prepack ? workspace_.q : s.q) + at * plan_.d_steps,
            (plan_.prepack ? workspace_.d_o : s.d_o) + at * plan_.dv_steps};
  }
  float* dq_panel(std::int64_t block, int p) const {
    return workspace_.dq + (block * plan_.panels + p) * plan_.d_rows * isa_.n;
  }
  int d() const { return static_cast<int>(problem_.d); }
  int dv() const { return static_cast<int>(problem_.dv); }
  int do_col_stride() const { return problem_.dv == 1 ? 1 : static_cast<int>(problem_.d_o.stride[3]); }

  struct KeyBlock {
    std::int64_t first;
    int count, padded;
    std::int64_t index;
    bool odd;
  };
  // Tile rows [first, last) that a panel fills.
  struct Range {
    int first, last;
  };

  // What a step is made for: operands of the products, plain tiles in their place, or delta alone.
  enum class Use { operands, tiles, delta };

  KeyBlock pack_keys(BackwardScratch& s, const Unit& unit, std::int64_t index) const {
    const std::int64_t first = index * plan_.block_keys;
    const int count = static_cast<int>(std::min<std::int64_t>(plan_.block_keys, unit.extent.k_length - first));
    const int padded = static_cast<int>(round_up(count, isa_.step));
    key_rows(problem_, unit, problem_.k, first, count, padded, s.rows);
    const bool k_odd = isa_.pack_m({s.rows, padded, d(), problem_.dtype, 1, s.k});
    isa_.pack_mt({s.rows, padded, d(), problem_.dtype, 1, s.k_t});
    key_rows(problem_, unit, problem_.v, first, count, padded, s.rows);
    isa_.pack_m({s.rows, padded, dv(), problem_.dtype, 1, s.v});
    return {first, count, padded, index, k_odd};
  }

  Range tile_rows(const KeyBlock& keys, const Lanes& lanes) const {
    const std::int64_t lo = std::max<std::int64_t>(lanes.lo_min, keys.first) - keys.first;
    const std::int64_t hi = std::min<std::int64_t>(lanes.hi_max, keys.first + keys.count) - keys.first;
    if (lo >= hi) return {0, 0};
    return {static_cast<int>(lo / isa_.step * isa_.step), static_cast<int>(round_up(hi, isa_.step))};
  }

  void prepare(BackwardScratch& s, const Unit& unit, std::int64_t u, std::int64_t index) const {
    if (index >= row_blocks_of(problem_, plan_, unit.extent.q_length)) return;
    const RowBlock rows = row_block(problem_, plan_, unit.extent.q_length, index);
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
          if (leaves_out_dp(lanes, lane, workspace_.delta[at + lane])) workspace_.delta[at + lane] = 0;
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

  // LSE and delta of a panel's rows; rows without keys and rows that do not exist get an LSE of +inf, so weights of 0.
  void prepare_statistics(const Unit& unit, std::int64_t first, int count, double* lse, float* delta) const {
    const void *outputs[kMaxLanes], *gradients[kMaxLanes];
    query_rows(problem_, unit, problem_.o_in, first, count, count, outputs);
    query_rows(problem_, unit, problem_.d_o, first, count, count, gradients);
    isa_.dot_rows({gradients, outputs, count, dv(), problem_.dtype, do_col_stride(), delta});
    std::fill(delta + count, delta + isa_.n, 0.0f);
    std::fill(lse, lse + isa_.n, double{kInfinity});
    for (int lane = 0; lane < count; ++lane) {
      const std::int64_t row = first + lane;
      const float given = problem_.lse_in[problem_.lse_index(unit.b, unit.head_of(problem_, row), unit.extent.q_begin,
                                                             row % unit.extent.q_length)];
      if (given != -kInfinity) lse[lane] = given;
    }
  }

  bool wants_refined_lse(const Lanes& lanes, const double* lse, const double* typical) const {
    if (plan_.whole_rows) return false;                                        // softmax starts anew there
    if (problem_.dtype == DType::fp32 && workspace_.sink_weight) return true;  // it has one weight of each row
    return lse_rounding_shows(problem_.dtype, lanes, lse, typical);
  }

  // The LSE of a row block's panels anew, from their scores: one product more than backward has anyway.
  void refine_lse(BackwardScratch& s, const Unit& unit, std::int64_t block, int panels, std::int32_t lo,
                  std::int32_t hi, RowStatistics& statistics) const {
    ScoreOptions options = score_options(problem_, unit.b);
    options.dropout = false;  // it follows the sum
    float max[kMaxPanels * kMaxLanes], sum[kMaxPanels * kMaxLanes];
    std::fill_n(max, plan_.block_rows, -kInfinity);
    std::fill_n(sum, plan_.block_rows, 0.0f);
    for (std::int64_t b = lo / plan_.block_keys; b < ceil_div(hi, plan_.block_keys); ++b) {
      const std::int64_t first = b * plan_.block_keys;
      const int count = static_cast<int>(std::min<std::int64_t>(plan_.block_keys, unit.extent.k_length - first));
      const int padded = static_cast<int>(round_up(count, isa_.step));
      key_rows(problem_, unit, problem_.k, first, count, padded, s.rows);
      isa_.pack_m({s.rows, padded, d(), problem_.dtype, 1, s.k});
      ForwardStep step{};  // without values: dv_rows is 0
      step.k = step.v = s.k;
      step.o = s.dk;
      step.key_begin = static_cast<int>(first);
      step.key_count = count;
      step.block_keys = padded;
      step.d_steps = plan_.d_steps;
      step.options = &options;
      step.scores = s.scores;
      step.weights = s.ds_n;
      step.dtype = problem_.dtype;
      step.piece = plan_.piece;
      for (int p = 0; p < panels; ++p) {
        step.q = panel(s, block, p).q;
        step.lanes = &s.lanes[p];
        step.max = max + p * isa_.n;
        step.sum = sum + p * isa_.n;
        isa_.forward_step(step);
      }
    }
    for (int p = 0; p < panels; ++p) {
      for (int lane = 0; lane < s.lanes[p].count; ++lane) {
        const int r = p * isa_.n + lane;
        if (!std::isfinite(statistics.lse[r])) continue;
        const double top = logit_of_max(isa_, options, max[r]);
        double beyond = std::log(double{sum[r]});  // of LSE, beyond the largest logit, which may be huge
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

  // Delta anew where one weight outweighs the others: then dP - delta cancels, and delta must come from the same dP.
  void refine_delta(BackwardScratch& s, const Unit& unit, const RowBlock& rows, std::int64_t block,
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
    const ScoreOptions options = score_options(problem_, unit.b);
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
        if (outweighs(r) && std::isfinite(sum[r]) && !leaves_out_dp(s.lanes[p], lane, delta)) delta = sum[r];
      }
    }
  }

  // LSE as backward_step reads it, and the weights of the sinks.
  void keep_lse(const Unit& unit, const RowBlock& rows, const RowStatistics& statistics, bool far,
                std::int64_t at) const {
    const ScoreOptions options = score_options(problem_, unit.b);
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

  // A row with a single key has weight 1 whatever its score: dS is 0, exactly so where dP is left out.
  bool leaves_out_dp(const Lanes& lanes, int lane, float delta) const {
    return !problem_.sinks && lanes.hi[lane] - lanes.lo[lane] == 1 && std::isfinite(delta);
  }

  // Q and dO of the rows of a panel, for the tiles; whether a value is not finite.
  bool pack_panel(BackwardScratch& s, const Unit& unit, std::int64_t first, const Lanes& lanes, const float* delta,
                  const Panel& to) const {
    const int n = isa_.n;
    query_rows(problem_, unit, problem_.q, first, lanes.count, n, s.rows);
    const bool q_odd = isa_.pack_n({s.rows, n, d(), problem_.dtype, 1, to.q});
    query_rows(problem_, unit, problem_.d_o, first, lanes.count, n, s.rows);
    for (int lane = 0; lane < lanes.count; ++lane) {
      if (leaves_out_dp(lanes, lane, delta[lane])) s.rows[lane] = nullptr;
    }
    return isa_.pack_n({s.rows, n, dv(), problem_.dtype, do_col_stride(), to.d_o}) || q_odd;
  }

  struct Transposed {
    char* q;
    char* d_o;
  };
  Transposed transposed(std::int64_t block) const {
    return {workspace_.q_t + block * plan_.block_rows * plan_.d_cols * plan_.element,
            workspace_.do_t + block * plan_.block_rows * plan_.dv_cols * plan_.element};
  }
  void pack_transposed(BackwardScratch& s, const Unit& unit, const RowBlock& rows, const Transposed& to) const {
    query_rows(problem_, unit, problem_.q, rows.first, rows.count, plan_.block_rows, s.rows);
    isa_.pack_nt({s.rows, plan_.block_rows, d(), problem_.dtype, 1, to.q});
    query_rows(problem_, unit, problem_.d_o, rows.first, rows.count, plan_.block_rows, s.rows);
    isa_.pack_nt({s.rows, plan_.block_rows, dv(), problem_.dtype, do_col_stride(), to.d_o});
  }

  // dsink = - sum over rows of P_sink * delta, in a fixed order.
  void add_to_sink_gradients(std::int64_t first, std::int64_t units) const {
    for (std::int64_t u = 0; u < units; ++u) {
      const Unit unit = unit_at(problem_, first + u);
      double sum = 0;
      std::int64_t head = unit.h * problem_.group;
      for (std::int64_t index = 0; index < row_blocks_of(problem_, plan_, unit.extent.q_length); ++index) {
        const RowBlock rows = row_block(problem_, plan_, unit.extent.q_length, index);
        const std::int64_t at = block_at(u, index) * plan_.block_rows;
        for (int r = 0; r < rows.count; ++r) {
          if (const std::int64_t next = unit.head_of(problem_, rows.first + r); next != head) {
            problem_.dsinks[head] -= static_cast<float>(sum);
            sum = 0;
            head = next;
          }
          sum += static_cast<double>(workspace_.sink_weight[at + r]) * workspace_.delta[at + r];
        }
      }
      problem_.dsinks[head] -= static_cast<float>(sum);
    }
  }

  // One block of keys of one unit against all its rows.
  void work(BackwardScratch& s, std::int64_t unit_index, std::int64_t u, std::int64_t key_block) const {
    const Unit unit = unit_at(problem_, unit_index);
    if (key_block * plan_.block_keys >= unit.extent.k_length) return;
    const KeyBlock keys = pack_keys(s, unit, key_block);
    std::fill_n(s.dk, std::int64_t{plan_.block_keys} * plan_.d_cols, 0.0f);
    std::fill_n(s.dv, std::int64_t{plan_.block_keys} * plan_.dv_cols, 0.0f);

    const std::int64_t blocks = row_blocks_of(problem_, plan_, unit.extent.q_length);
    // From the last rows on: those are common to all key blocks of a causal mask, so that nobody's turn is late.
    for (std::int64_t index = blocks; index-- > 0;) {
      const RowInfo& info = workspace_.info[block_at(u, index)];
      if (key_block < info.first_block || key_block >= info.last_block) continue;
      work_rows(s, unit, keys, row_block(problem_, plan_, unit.extent.q_length, index), block_at(u, index));
    }
    const auto store = [&](const View& view, const float* c, float factor) {
      key_rows(problem_, unit, view, keys.first, keys.count, keys.count, s.rows);
      isa_.store_cols({c, std::ptrdiff_t{plan_.block_keys} * isa_.cols, const_cast<void* const*>(s.rows), keys.count,
                       static_cast<int>(view.shape[3]), factor, problem_.dtype});
    };
    store(problem_.dk, s.dk, problem_.scale);
    store(problem_.dv_out, s.dv, 1.0f);
  }

  void work_rows(BackwardScratch& s, const Unit& unit, const KeyBlock& keys, const RowBlock& rows,
                 std::int64_t block) const {
    RowInfo& info = workspace_.info[block];
    const ScoreOptions options = score_options(problem_, unit.b);
    const int panels = static_cast<int>(ceil_div(rows.count, isa_.n));
    // Lanes past the last row are zeros, and 0 * infinity spreads as well.
    const bool isolate = (keys.odd || info.odd) && (problem_.masked() || problem_.has_bias || rows.count % isa_.n != 0);
    Range ranges[kMaxPanels];
    for (int p = 0; p < panels; ++p) {
      Lanes& lanes = s.lanes[p];
      fill_lanes(problem_, unit, rows.first + p * isa_.n, std::min(isa_.n, rows.count - p * isa_.n), isa_.n, lanes);
      ranges[p] = tile_rows(keys, lanes);
      if (ranges[p].first >= ranges[p].last) continue;
      if (!plan_.prepack) {
        const float* delta = workspace_.delta + block * plan_.block_rows + p * isa_.n;
        pack_panel(s, unit, rows.first + p * isa_.n, lanes, delta, panel(s, block, p));
      }
      step(s, keys, options, p, ranges[p], block, isolate ? Use::tiles : Use::operands);
    }
    if (isolate) {
      add_isolated(s, unit, keys, rows, panels, ranges, block);
      return;
    }
    Transposed rows_t{s.q_t, s.do_t};
    if (workspace_.q_t) {
      rows_t = transposed(block);
    } else {
      pack_transposed(s, unit, rows, rows_t);
    }
    add_key_gradients(s, ranges, panels, keys.padded, rows_t);
    wait_for_turn(info, keys.index);
    for (int p = 0; p < panels; ++p) {
      const auto [first, last] = ranges[p];
      if (first >= last) continue;
      isa_.multiply_n({s.k_t + std::int64_t{first} * isa_.m * plan_.element, std::ptrdiff_t{keys.padded} * isa_.m,
                       ds_n(s, p) + std::int64_t{first} * isa_.n * plan_.element, last - first, plan_.d_rows / isa_.m,
                       dq_panel(block, p), true});
    }
    info.turn.store(static_cast<std::int32_t>(keys.index) + 1, std::memory_order_release);
  }

  char* ds_n(const BackwardScratch& s, int p) const {
    return s.ds_n + std::int64_t{p} * plan_.block_keys * isa_.n * plan_.element;
  }

  // One panel of rows against the block's keys: P and dS.
  void step(BackwardScratch& s, const KeyBlock& keys, const ScoreOptions& options, int p, const Range& range,
            std::int64_t block, Use use, float* delta_sum = nullptr) const {
    const std::int64_t at = std::int64_t{p} * isa_.n * isa_.m * plan_.element;  // this panel's steps in an M panel
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
    a.piece = plan_.piece;
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

  // dV += P^T dO and dK += dS^T Q. Runs of M panels that meet the same row panels go together; a row panel inside a
  // run's range that did not fill its tile there counts as zeros.
  void add_key_gradients(BackwardScratch& s, const Range* ranges, int panels, int padded,
                         const Transposed& rows) const {
    const auto meets = [&](int p, int m) { return ranges[p].first <= m * isa_.m && m * isa_.m < ranges[p].last; };
    const auto span = [&](int m) {
      Range found{0, 0};
      for (int p = 0; p < panels; ++p) {
        if (!meets(p, m)) continue;
        if (found.last == 0) found.first = p;
        found.last = p + 1;
      }
      return found;
    };
    const int m_panels = padded / isa_.m;
    for (int m = 0; m < m_panels;) {
      const Range with = span(m);
      int end = m;
      do {
        clear_unmet(s, with, end, meets);
        ++end;
      } while (end < m_panels && span(end).first == with.first && span(end).last == with.last);
      if (with.last > 0) {
        add_product(s.p_m, rows.d_o, plan_.dv_cols, s.dv, m, end, with);
        add_product(s.ds_m, rows.q, plan_.d_cols, s.dk, m, end, with);
      }
      m = end;
    }
  }

  template <class Meets>
  void clear_unmet(BackwardScratch& s, const Range& with, int m, const Meets& meets) const {
    const std::int64_t piece = std::int64_t{isa_.n} * isa_.m * plan_.element;
    for (int p = with.first; p < with.last; ++p) {
      if (meets(p, m)) continue;
      std::fill_n(s.p_m + (std::int64_t{m} * plan_.panels + p) * piece, piece, char{0});
      std::fill_n(s.ds_m + (std::int64_t{m} * plan_.panels + p) * piece, piece, char{0});
    }
  }

  void add_product(const char* m_operand, const char* n_operand, int cols, float* c, int m, int end,
                   const Range& with) const {
    const std::int64_t rows = plan_.block_rows, skipped = std::int64_t{with.first} * isa_.n;
    for (int col = 0; col < cols; col += isa_.cols) {
      isa_.multiply_cols({m_operand + (m * rows + skipped) * isa_.m * plan_.element, rows * isa_.m,
                          n_operand + (col * rows + skipped * isa_.cols) * plan_.element,
                          (with.last - with.first) * isa_.n, end - m,
                          c + std::int64_t{col} * plan_.block_keys + std::int64_t{m} * isa_.m * isa_.cols, true});
    }
  }

  static void wait_for_turn(const RowInfo& info, std::int64_t key_block) {
    for (int spins = 0; info.turn.load(std::memory_order_acquire) != key_block; ++spins) {
      if (spins > 1000) std::this_thread::yield();
    }
  }

  // The three products over allowed pairs only, one by one: where some input is not finite, 0 * NaN must not spread.
  void add_isolated(BackwardScratch& s, const Unit& unit, const KeyBlock& keys, const RowBlock& rows, int panels,
                    const Range* ranges, std::int64_t block) const {
    RowInfo& info = workspace_.info[block];
    wait_for_turn(info, keys.index);
    const Rows k = problem_.rows(problem_.k, unit.b, unit.h, unit.extent.k_begin);
    for (int p = 0; p < panels; ++p) {
      const Lanes& lanes = s.lanes[p];
      const std::int64_t tile = std::int64_t{p} * plan_.block_keys * isa_.n;
      for (int lane = 0; lane < lanes.count; ++lane) {
        const void *q, *d_o;
        query_rows(problem_, unit, problem_.q, rows.first + p * isa_.n + lane, 1, 1, &q);
        query_rows(problem_, unit, problem_.d_o, rows.first + p * isa_.n + lane, 1, 1, &d_o);
        for (int r = ranges[p].first; r < ranges[p].last; ++r) {
          const std::int64_t key = keys.first + r;
          if (key < lanes.lo[lane] || key >= lanes.hi[lane]) continue;
          const float weight = s.p_tile[tile + r * isa_.n + lane], ds = s.ds_tile[tile + r * isa_.n + lane];
          for (int c = 0; c < dv(); ++c) {
            at_cols(s.dv, r, c) += weight * load_element(d_o, problem_.dtype, c * do_col_stride());
          }
          for (int c = 0; c < d(); ++c) {
            at_cols(s.dk, r, c) += ds * load_element(q, problem_.dtype, c);
            dq_panel(block, p)[c * isa_.n + lane] += ds * load_element(k[key], problem_.dtype, c);
          }
        }
      }
    }
    info.turn.store(static_cast<std::int32_t>(keys.index) + 1, std::memory_order_release);
  }
  float& at_cols(float* c, int row, int col) const {
    return c[(std::int64_t{col} / isa_.cols * plan_.block_keys + row) * isa_.cols + col % isa_.cols];
  }

  void finish(BackwardScratch& s, const Unit& unit, std::int64_t u, std::int64_t index) const {
    if (index >= row_blocks_of(problem_, plan_, unit.extent.q_length)) return;
    const RowBlock rows = row_block(problem_, plan_, unit.extent.q_length, index);
    float divisor[kMaxLanes];
    std::fill_n(divisor, isa_.n, 1.0f);
    for (int p = 0; p * isa_.n < rows.count; ++p) {
      const int count = std::min(isa_.n, rows.count - p * isa_.n);
      query_rows(problem_, unit, problem_.dq, rows.first + p * isa_.n, count, count, s.rows);
      isa_.store_lanes({dq_panel(block_at(u, index), p), const_cast<void* const*>(s.rows), count, d(), problem_.scale,
                        divisor, problem_.dtype});
    }
  }

  const Problem& problem_;
  const Plan& plan_;
  const Isa& isa_;
  const BackwardWorkspace& workspace_;
};

}  // namespace

std::size_t backward_workspace(const Problem& problem, const Plan& plan) {
  Carver carver(nullptr);
  carve_backward(problem, plan, carver);
  return carver.used();
}

void backward(const Problem& problem, const Plan& plan, void* workspace) {
  Carver carver(workspace);
  const BackwardWorkspace carved = carve_backward(problem, plan, carver);
  Backward(problem, plan, carved).run();
}

}  // namespace strobe::cpu
