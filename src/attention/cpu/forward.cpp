// flash2's forward pass on the CPU, called by flash2.cpp. For each group of units it packs K and V (with
// Plan::prepack), computes row blocks, and combines the key ranges of split row blocks (split-KV). With
// Plan::unit_tasks a thread packs and computes one unit at a time, and idle threads steal row blocks. Blocks, and the
// order of keys within a row, do not depend on the number of threads. plan.h defines units, row blocks and panels.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "attention/cpu/plan.h"
#include "attention/cpu/step_pipeline.h"
#include "attention/cpu/work_stealing.h"
#include "core/natural_log.h"
#include "core/philox.h"
#include "device/host/thread_pool.h"

namespace strobe::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Scratch of one thread; ForwardStep (isa.h) describes most of the arrays. `copies` is StepPipeline::copies(). The
// arrays of a narrow panel are proportionally shorter, without a gap before the next panel.
struct Scratch {
  char* q;               // [panels][d_steps][n]: N panels of Q
  float* o;              // [panels][dv_rows][n]: O^T
  float* max;            // [panels][n]: running maxima
  float* sum;            // [panels][n]: running sums
  float* scores;         // [copies][block_keys][n]: S
  char* probabilities;   // [copies][block_keys][n]: P as N operand, unless fp32
  float* shrink;         // [copies][n]
  float* largest;        // [copies][n]
  std::uint32_t* words;  // [block_keys][n]: random words, with dropout
  char* k;               // [block_keys][d_steps]: M panels of a block of K, if not prepacked
  char* v;               // [dv_rows][block_keys]: M panels of a block of V^T, if not prepacked
  Lanes* lanes;          // [panels]: key ranges of the rows
  const void** rows;     // [max(block_rows, 2 * block_keys)]: addresses of rows of Q or O, or of K and V
};

struct Workspace {
  Scratch* scratch;       // [threads]
  UnitInFlight* in_work;  // [threads]: with unit_tasks
  char* k;                // [group_units][key_blocks][block_keys][d_steps]: M panels of K, if prepacked
  char* v;                // [group_units][key_blocks][dv_rows][block_keys]: M panels of V^T, if prepacked
  std::uint8_t* v_odd;    // [group_units][key_blocks]: 1 if a block of V holds a value that is not finite
  // Partial results of split-KV. A place is a row block of the group if each split is a task (Plan::split_tasks), else
  // a thread. Each panel has room for Isa::n lanes; a narrow panel uses only the beginning.
  float* split_o;    // [places][splits][panels][dv_rows][n]: O^T of a split, not normalised
  float* split_max;  // [places][splits][panels][n]: maxima
  float* split_sum;  // [places][splits][panels][n]: sums
};

Workspace carve(const Problem& problem, const Plan& plan, Carver& carver) {
  const std::int64_t n = plan.isa->n, block = plan.block_keys, e = plan.element, copies = StepPipeline::copies(plan);
  Workspace w{};
  w.scratch = carver.take<Scratch>(plan.threads);
  for (int thread = 0; thread < plan.threads; ++thread) {
    Scratch s{};
    s.q = carver.bytes(plan.panels * plan.d_steps * n * e);
    s.o = carver.take<float>(plan.panels * plan.dv_rows * n);
    s.max = carver.take<float>(plan.panels * n);
    s.sum = carver.take<float>(plan.panels * n);
    s.scores = carver.take<float>(copies * block * n);
    s.probabilities = e == 4 ? nullptr : carver.bytes(copies * block * n * e);
    s.shrink = carver.take<float>(copies * n);
    s.largest = carver.take<float>(copies * n);
    s.words = problem.dropout.p > 0 ? carver.take<std::uint32_t>(block * n) : nullptr;
    s.k = plan.prepack ? nullptr : carver.bytes(block * plan.d_steps * e);
    s.v = plan.prepack ? nullptr : carver.bytes(block * plan.dv_rows * e);
    s.lanes = carver.take<Lanes>(plan.panels);
    s.rows = carver.take<const void*>(std::max<std::int64_t>(plan.block_rows, 2 * block));
    if (w.scratch) w.scratch[thread] = s;
  }
  if (plan.unit_tasks) w.in_work = carver.take<UnitInFlight>(plan.threads);
  if (plan.prepack) {
    const std::int64_t blocks = plan.group_units * plan.key_blocks;
    w.k = carver.bytes(blocks * block * plan.d_steps * e);
    w.v = carver.bytes(blocks * block * plan.dv_rows * e);
    w.v_odd = carver.take<std::uint8_t>(blocks);
  }
  if (plan.splits > 1) {
    const std::int64_t places = plan.split_tasks ? plan.group_units * plan.row_blocks : plan.threads;
    const std::int64_t partials = places * plan.splits * plan.panels;
    w.split_o = carver.take<float>(partials * plan.dv_rows * n);
    w.split_max = carver.take<float>(partials * n);
    w.split_sum = carver.take<float>(partials * n);
  }
  return w;
}

class Forward {
 public:
  Forward(const Problem& problem, const Plan& plan, const Workspace& workspace)
      : problem_(problem), plan_(plan), isa_(*plan.isa), workspace_(workspace), pack_(isa_) {}

  bool run() {
    plan_.unit_tasks ? run_units() : run_groups();
    return pack_.fits();
  }

 private:
  void run_units() {
    run_stealing(
        {workspace_.in_work, plan_.threads, plan_.units, plan_.row_blocks},
        [&](int thread, std::int64_t unit) {
          for (std::int64_t b = 0; b < plan_.key_blocks && pack_.fits(); ++b) {
            pack_block(workspace_.scratch[thread], unit_at(problem_, unit), b, packed(thread, b));
          }
          return pack_.fits();
        },
        [&](int thread, int owner, std::int64_t unit, std::int64_t block) {
          if (pack_.fits()) attend_whole(thread, unit, owner, plan_.row_blocks - 1 - block);
        },
        [](int, int, std::int64_t) {});
  }

  void run_groups() {
    for (std::int64_t first = 0; first < plan_.units; first += plan_.group_units) {
      const std::int64_t units = std::min(plan_.group_units, plan_.units - first);
      if (plan_.prepack) {
        parallel_for(plan_.threads, units * plan_.key_blocks, [&](int thread, std::int64_t task) {
          const std::int64_t u = task / plan_.key_blocks, block = task % plan_.key_blocks;
          pack_block(workspace_.scratch[thread], unit_at(problem_, first + u), block, packed(u, block));
        });
      }
      if (!pack_.fits()) return;
      // Tasks are ordered by unit, so K and V stay in cache. Within a unit the last rows start first, because with a
      // causal mask they see the most keys and take longest.
      if (plan_.split_tasks) {
        run_splits(first, units);
      } else {
        parallel_for(plan_.threads, units * plan_.row_blocks, [&](int thread, std::int64_t task) {
          const std::int64_t u = task / plan_.row_blocks;
          attend_whole(thread, first + u, u, plan_.row_blocks - 1 - task % plan_.row_blocks);
        });
      }
    }
  }

  void run_splits(std::int64_t first, std::int64_t units) {
    parallel_for(plan_.threads, units * plan_.row_blocks * plan_.splits, [&](int thread, std::int64_t task) {
      const std::int64_t of_unit = plan_.row_blocks * plan_.splits, u = task / of_unit;
      const std::int64_t split = task % plan_.splits, index = plan_.row_blocks - 1 - task % of_unit / plan_.splits;
      attend(workspace_.scratch[thread], first + u, u, index, split, u * plan_.row_blocks + index);
    });
    parallel_for(plan_.threads, units * plan_.row_blocks, [&](int thread, std::int64_t task) {
      const std::int64_t u = task % units, index = task / units;
      combine(workspace_.scratch[thread], first + u, index, u * plan_.row_blocks + index);
    });
  }

  // Computes one row block against all keys.
  void attend_whole(int thread, std::int64_t unit_index, std::int64_t u, std::int64_t index) {
    Scratch& s = workspace_.scratch[thread];
    for (std::int64_t split = 0; split < plan_.splits; ++split) attend(s, unit_index, u, index, split, thread);
    if (plan_.splits > 1) combine(s, unit_index, index, thread);
  }

  struct KvBlock {
    char* k;
    char* v;
    std::uint8_t* v_odd;
  };

  KvBlock packed(std::int64_t u, std::int64_t block) const {
    const std::int64_t at = u * plan_.key_blocks + block, keys = plan_.block_keys;
    return {workspace_.k + at * keys * plan_.d_steps * plan_.element,
            workspace_.v + at * keys * plan_.dv_rows * plan_.element, workspace_.v_odd + at};
  }

  void pack_block(Scratch& s, const Unit& unit, std::int64_t block, const KvBlock& to) {
    const std::int64_t first = block * plan_.block_keys;
    const int count = static_cast<int>(std::min<std::int64_t>(plan_.block_keys, unit.extent.seqlen_k - first));
    if (count <= 0) return;
    const int padded = static_cast<int>(round_up(count, isa_.step));
    key_rows(problem_, unit, problem_.k, first, count, padded, s.rows);
    key_rows(problem_, unit, problem_.v, first, count, padded, s.rows + padded);
    pack_(isa_.pack_m, {s.rows, padded, static_cast<int>(problem_.d), problem_.dtype, 1, to.k, padded});
    *to.v_odd = pack_(isa_.pack_mt, {s.rows + padded, padded, static_cast<int>(problem_.dv), problem_.dtype, 1, to.v});
  }

  // Computes one row block against one range of keys. With several ranges, saves the partial result at index `place`
  // for combine().
  void attend(Scratch& s, std::int64_t unit_index, std::int64_t u, std::int64_t index, std::int64_t split,
              std::int64_t place) {
    const Unit unit = unit_at(problem_, unit_index);
    if (index >= row_blocks_of(problem_, plan_, unit.extent.seqlen_q)) return;
    const RowBlock block = row_block(problem_, plan_, unit.extent.seqlen_q, index);
    const CpuScoreOptions options = score_options(problem_, unit);
    const PanelsOfBlock panels(isa_, block.count);
    std::int32_t lo = std::numeric_limits<std::int32_t>::max(), hi = 0;
    query_rows(problem_, unit, problem_.q, block.first, block.count, panels.lanes(), s.rows);
    for (int p = 0; p < panels.count(); ++p) {
      begin_panel(s, unit, block, panels, p);
      lo = std::min(lo, s.lanes[p].lo_min);
      hi = std::max(hi, s.lanes[p].hi_max);
    }
    const std::int64_t first = std::max(split * plan_.split_blocks, lo / std::int64_t{plan_.block_keys});
    const std::int64_t last = std::min((split + 1) * plan_.split_blocks, ceil_div(hi, plan_.block_keys));
    std::optional<Prefetch> prefetch = plan_prefetch(problem_, plan_, unit_index);
    StepPipeline pipeline(plan_, s.scores, s.probabilities, s.shrink, s.largest);
    for (std::int64_t b = first; b < last; ++b) {
      std::uint8_t v_odd = 0;
      KvBlock kv{s.k, s.v, &v_odd};
      if (plan_.prepack) {
        kv = packed(u, b);
      } else {
        pipeline.drain();
        pack_block(s, unit, b, kv);
      }
      attend_block(s, unit, options, panels, b, b == first, kv, prefetch ? &*prefetch : nullptr, pipeline);
    }
    pipeline.drain();
    for (int p = 0; p < panels.count(); ++p) {
      const RowPanel panel = panels.panel(p);
      const int at = panels.first_lane(p);
      float* const o = s.o + at * plan_.dv_rows;
      if (plan_.splits > 1) {
        keep_split(panel.n, o, s.max + at, s.sum + at, split_index(place, split, p));
      } else {
        double logits[kMaxLanes];
        if (problem_.lse || problem_.sinks) {
          std::transform(s.max + at, s.max + at + panel.n, logits, LogitOfMax(isa_, options));
        }
        finish_panel(s, unit, panel, block.first + at, s.lanes[p], o, logits, s.sum + at);
      }
    }
  }

  // Initialises the state of a panel and packs its Q rows. s.rows contains the Q rows of the whole block.
  void begin_panel(Scratch& s, const Unit& unit, const RowBlock& block, const PanelsOfBlock& panels, int p) {
    const RowPanel panel = panels.panel(p);
    const int n = panel.n, at = panels.first_lane(p), left = block.count - at;
    fill_lanes(problem_, unit, block.first + at, std::min(n, left), n, s.lanes[p]);
    const int d = static_cast<int>(problem_.d), following = std::max(0, left - n);
    pack_(panel.pack_n, {s.rows + at, n, d, problem_.dtype, 1, q_panel(s, at), following});
    std::fill_n(s.o + at * plan_.dv_rows, plan_.dv_rows * n, 0.0f);
    std::fill_n(s.max + at, n, -kInfinity);
    std::fill_n(s.sum + at, n, 0.0f);
  }

  void attend_block(Scratch& s, const Unit& unit, const CpuScoreOptions& options, const PanelsOfBlock& panels,
                    std::int64_t b, bool begins, const KvBlock& kv, Prefetch* prefetch, StepPipeline& pipeline) const {
    const std::int64_t first = b * plan_.block_keys;
    ForwardStep step{};
    step.k = kv.k;
    step.v = kv.v;
    step.key_begin = static_cast<int>(first);
    step.key_count = static_cast<int>(std::min<std::int64_t>(plan_.block_keys, unit.extent.seqlen_k - first));
    step.block_keys = static_cast<int>(round_up(step.key_count, isa_.step));
    step.d_steps = plan_.d_steps;
    step.dv_rows = plan_.dv_rows;
    step.options = &options;
    step.words = s.words;
    step.dtype = problem_.dtype;
    step.dv = static_cast<int>(problem_.dv);
    step.sum_chunk = plan_.sum_chunk;
    step.begins = begins;
    step.prefetch = prefetch;
    if (*kv.v_odd) {
      key_rows(problem_, unit, problem_.v, first, step.key_count, step.key_count, s.rows);
      step.v_rows = s.rows;
    }
    for (int p = 0; p < panels.count(); ++p) {
      const int at = panels.first_lane(p);
      pipeline.push(step, {panels.panel(p).forward_step, q_panel(s, at), &s.lanes[p], s.o + at * plan_.dv_rows,
                           s.max + at, s.sum + at});
    }
  }

  // Adds the sink, normalises O, and writes O and LSE of the panel whose first row is `first`. sum [n] is the running
  // sum after all keys. max [n] is the running maximum as a logit. It is read only with sinks or LSE. With sinks
  // it becomes the maximum of itself and the sink.
  void finish_panel(Scratch& s, const Unit& unit, const RowPanel& panel, std::int64_t first, const Lanes& lanes,
                    float* o, double* max, const float* sum) const {
    const int n = panel.n, count = lanes.count;
    const double kept = 1 / dropout_scale(dropout_threshold(problem_.dropout.p));
    // Both totals include the sink. `total` is relative to the largest logit including the sink. `total_of_o` is
    // relative to the largest logit of keys, like O.
    double total[kMaxLanes], total_of_o[kMaxLanes];
    std::copy_n(sum, n, total);
    std::copy_n(sum, n, total_of_o);
    for (int lane = 0; problem_.sinks && lane < n; ++lane) {
      if (!sees_a_key(unit, lanes, lane, max[lane])) continue;  // the LSE of a row without keys stays -inf
      const double sink = problem_.sinks[lanes.head[lane]], largest = std::max(max[lane], sink);
      const double shrink = total[lane] == 0 ? 0 : std::exp(max[lane] - largest);
      total[lane] = total[lane] * shrink + (largest == -kInfinity ? 0 : std::exp(sink - largest));
      total_of_o[lane] = total[lane] / shrink;
      max[lane] = largest;
    }
    float divisor[kMaxLanes];
    for (int lane = 0; lane < n; ++lane) divisor[lane] = static_cast<float>(total_of_o[lane] * kept) * isa_.boost;
    for (int lane = 0; lane < n; ++lane) {
      if (total[lane] != 0) continue;  // a fully masked row gives 0 even if V is not finite
      for (int c = 0; c < plan_.dv_rows; ++c) o[c * n + lane] = 0;
      divisor[lane] = 1;
    }
    // Turns -0 into 0, because the sign of a zero would otherwise depend on the number of blocks and splits of the row.
    for (int at = 0; problem_.batch_invariant && at < plan_.dv_rows * n; ++at) o[at] += 0.0f;
    if (problem_.lse) store_lse(unit, lanes, n, max, total);
    query_rows(problem_, unit, problem_.o, first, count, count, s.rows);
    panel.store_lanes(
        {o, const_cast<void* const*>(s.rows), count, static_cast<int>(problem_.dv), 1.0f, divisor, problem_.dtype});
  }

  // Returns true if the masks allow the row at least one key. `max` is its largest logit, which is -inf if all keys are
  // masked or have a bias of -inf.
  bool sees_a_key(const Unit& unit, const Lanes& lanes, int lane, double max) const {
    const Interval keys{lanes.lo[lane], lanes.hi[lane]};
    if (!problem_.has_mask || max != -kInfinity) return keys.lo < keys.hi;
    return problem_.allows_any(unit.extent, unit.b, lanes.head[lane], lanes.row[lane], keys);
  }

  // Writes LSE from max [n] and total [n] of finish_panel.
  void store_lse(const Unit& unit, const Lanes& lanes, int n, const double* max, const double* total) const {
    float lse[kMaxLanes];
    for (int lane = 0; lane < n; ++lane) lse[lane] = static_cast<float>(max[lane] + natural_log(total[lane]));
    for (int lane = 0; lane < lanes.count; ++lane) {
      problem_.lse[problem_.lse_index(unit.b, lanes.head[lane], unit.extent.q_begin, lanes.row[lane])] =
          total[lane] == 0 ? -kInfinity : lse[lane];
    }
  }

  // Returns the Q panel whose first lane in its row block is `lane`.
  char* q_panel(const Scratch& s, int lane) const { return s.q + std::int64_t{lane} * plan_.d_steps * plan_.element; }

  std::int64_t split_index(std::int64_t place, std::int64_t split, int p) const {
    return (place * plan_.splits + split) * plan_.panels + p;
  }

  // Saves the state of a panel of n lanes for combine().
  void keep_split(int n, const float* o, const float* max, const float* sum, std::int64_t partial) const {
    std::copy_n(o, plan_.dv_rows * n, workspace_.split_o + partial * plan_.dv_rows * isa_.n);
    std::copy_n(max, n, workspace_.split_max + partial * isa_.n);
    std::copy_n(sum, n, workspace_.split_sum + partial * isa_.n);
  }

  // Sums the splits of a row block in a fixed order, weighted by exp(max of the split - largest). A split without keys
  // changes nothing.
  void combine(Scratch& s, std::int64_t unit_index, std::int64_t index, std::int64_t place) const {
    const Unit unit = unit_at(problem_, unit_index);
    if (index >= row_blocks_of(problem_, plan_, unit.extent.seqlen_q)) return;
    const RowBlock block = row_block(problem_, plan_, unit.extent.seqlen_q, index);
    const LogitOfMax logit_of_max(isa_, score_options(problem_, unit));
    const PanelsOfBlock panels(isa_, block.count);
    for (int p = 0; p < panels.count(); ++p) {
      const RowPanel panel = panels.panel(p);
      const int n = panel.n;
      double max[kMaxLanes];
      float* sum = s.sum;
      std::fill_n(s.o, plan_.dv_rows * n, 0.0f);
      std::fill_n(max, n, -std::numeric_limits<double>::infinity());
      std::fill_n(sum, n, 0.0f);
      for (std::int64_t split = 0; split < plan_.splits; ++split) {
        const float* part = workspace_.split_max + split_index(place, split, p) * isa_.n;
        for (int lane = 0; lane < n; ++lane) max[lane] = std::max(max[lane], logit_of_max(part[lane]));
      }
      for (std::int64_t split = 0; split < plan_.splits; ++split) {
        const std::int64_t partial = split_index(place, split, p) * isa_.n;
        const float* o = workspace_.split_o + partial * plan_.dv_rows;
        float weight[kMaxLanes];
        for (int lane = 0; lane < n; ++lane) {
          const float part = workspace_.split_max[partial + lane];
          weight[lane] = part == -kInfinity ? 0.0f : static_cast<float>(std::exp(logit_of_max(part) - max[lane]));
          sum[lane] += workspace_.split_sum[partial + lane] * weight[lane];
        }
        for (int at = 0; at < plan_.dv_rows * n; at += n) {
          for (int lane = 0; lane < n; ++lane) s.o[at + lane] += o[at + lane] * weight[lane];
        }
      }
      const int at = panels.first_lane(p);
      fill_lanes(problem_, unit, block.first + at, std::min(n, block.count - at), n, s.lanes[0]);
      finish_panel(s, unit, panel, block.first + at, s.lanes[0], s.o, max, sum);
    }
  }

  const Problem& problem_;
  const Plan& plan_;
  const Isa& isa_;
  const Workspace& workspace_;
  Packer pack_;
};

}  // namespace

std::size_t forward_workspace(const Problem& problem, const Plan& plan) {
  Carver carver(nullptr);
  carve(problem, plan, carver);
  return carver.used();
}

bool forward(const Problem& problem, const Plan& plan, void* workspace) {
  Carver carver(workspace);
  const Workspace carved = carve(problem, plan, carver);
  return Forward(problem, plan, carved).run();
}

}  // namespace strobe::cpu
