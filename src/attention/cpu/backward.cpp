// flash2's backward pass on the CPU, called by flash2.cpp. For each group of units it prepares rows, runs one task per
// key block, and then writes dQ. Preparation computes delta. It also packs Q and dO, unless the packed copies would
// need too much memory. The task of a key block accumulates its dK and dV and adds to dQ. With Plan::unit_tasks a
// thread does this for one unit at a time, and idle threads steal key blocks. plan.h defines units, row blocks and
// panels.
#include <thread>

#include "attention/cpu/plan.h"
#include "attention/cpu/row_preparation.h"
#include "attention/cpu/work_stealing.h"
#include "core/half.h"
#include "device/host/thread_pool.h"

namespace strobe::cpu {

namespace {

// Accumulates dQ in order: key blocks add to the dQ of a row block in increasing order (RowInfo::turn), regardless of
// the threads that process them. Results are therefore bitwise identical for any number of threads, without atomics on
// data. The pass takes five matmuls; a separate pass for dQ would make it seven.
class Backward : BackwardTiles {
 public:
  using BackwardTiles::BackwardTiles;

  bool run() {
    clear_extra_gradients();
    plan_.unit_tasks ? run_units() : run_groups();
    return pack_.fits();
  }

 private:
  void run_units() {
    const RowPreparation rows(problem_, plan_, workspace_, pack_);
    run_stealing(
        {workspace_.in_work, plan_.threads, plan_.units, plan_.key_blocks},
        [&](int thread, std::int64_t unit) {
          for (std::int64_t index = 0; index < plan_.row_blocks && pack_.fits(); ++index) {
            rows.prepare(workspace_.scratch[thread], unit_at(problem_, unit), thread, index);
          }
          return pack_.fits();
        },
        [&](int thread, int owner, std::int64_t unit, std::int64_t key_block) {
          work(workspace_.scratch[thread], unit, owner, key_block);
        },
        [&](int thread, int owner, std::int64_t unit) {
          for (std::int64_t index = 0; index < plan_.row_blocks; ++index) {
            finish(workspace_.scratch[thread], unit_at(problem_, unit), owner, index);
          }
        });
  }

  void run_groups() {
    const RowPreparation rows(problem_, plan_, workspace_, pack_);
    for (std::int64_t first = 0; first < plan_.units; first += plan_.group_units) {
      const std::int64_t units = std::min(plan_.group_units, plan_.units - first);
      parallel_for(plan_.threads, units * plan_.row_blocks, [&](int thread, std::int64_t task) {
        rows.prepare(workspace_.scratch[thread], unit_at(problem_, first + task % units), task % units, task / units);
      });
      if (!pack_.fits()) return;
      // Tasks are ordered by key block over all units, since with a causal mask the first key blocks have the most
      // rows. Consecutive tasks belong to different units, so they seldom wait for each other.
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

  // Returns true if several units add to the same element of dbias. One task then runs a key block for all of these
  // units, in order.
  bool bias_gradient_shared() const { return sequences_share_dbias() || heads_share_dbias(); }
  bool sequences_share_dbias() const {
    return problem_.dbias.data && problem_.batch > 1 && problem_.dbias.stride[0] == 0;
  }
  bool heads_share_dbias() const {
    return problem_.dbias.data && problem_.heads_kv > 1 && problem_.dbias.stride[1] == 0;
  }
  // Units that add to the same elements of dbias form a set: the units of a KV head, those of a sequence, or all units.
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

  // Computes dsink = -(sum over rows of P_sink * delta), summed in a fixed order.
  void add_to_sink_gradients(std::int64_t first, std::int64_t units) const {
    for (std::int64_t u = 0; u < units; ++u) {
      const Unit unit = unit_at(problem_, first + u);
      double sum = 0;
      std::int64_t head = unit.h * problem_.group;
      for (std::int64_t index = 0; index < row_blocks_of(problem_, plan_, unit.extent.seqlen_q); ++index) {
        const RowBlock rows = row_block(problem_, plan_, unit.extent.seqlen_q, index);
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

  // Computes one key block of one unit against all rows of the unit.
  void work(BackwardScratch& s, std::int64_t unit_index, std::int64_t u, std::int64_t key_block) const {
    const Unit unit = unit_at(problem_, unit_index);
    if (key_block * plan_.block_keys >= unit.extent.seqlen_k) return;
    const KeyBlock keys = pack_keys(s, unit, key_block);
    std::fill_n(s.dk, std::int64_t{plan_.block_keys} * plan_.d_cols, 0.0f);
    std::fill_n(s.dv, std::int64_t{plan_.block_keys} * plan_.dv_cols, 0.0f);

    const std::int64_t blocks = row_blocks_of(problem_, plan_, unit.extent.seqlen_q);
    // Start with the last rows, which see all key blocks if the mask is causal, so no task waits long for another.
    for (std::int64_t index = blocks; index-- > 0;) {
      const RowInfo& info = workspace_.info[block_at(u, index)];
      if (key_block < info.first_block || key_block >= info.last_block) continue;
      work_rows(s, unit, keys, row_block(problem_, plan_, unit.extent.seqlen_q, index), block_at(u, index));
    }
    const auto store = [&](const View& view, const float* c, float factor) {
      key_rows(problem_, unit, view, keys.first, keys.count, keys.count, s.rows);
      isa_.store_cols({c, std::ptrdiff_t{plan_.block_keys} * isa_.cols, const_cast<void* const*>(s.rows), keys.count,
                       static_cast<int>(view.shape[3]), factor, problem_.dtype});
    };
    store(problem_.dk, s.dk, problem_.scale / isa_.boost);
    store(problem_.dv_out, s.dv, 1.0f / isa_.boost);
  }

  void work_rows(BackwardScratch& s, const Unit& unit, const KeyBlock& keys, const RowBlock& rows,
                 std::int64_t block) const {
    RowInfo& info = workspace_.info[block];
    const CpuScoreOptions options = score_options(problem_, unit);
    const int panels = static_cast<int>(ceil_div(rows.count, isa_.n));
    // Masked pairs, and lanes past the last row, must not contribute, but 0 * infinity in a matmul is NaN. With
    // non-finite input and any such pair or lane, add_isolated() therefore replaces the matmuls.
    const bool isolate = (keys.odd || info.odd) &&
                         (problem_.masked() || problem_.has_bias || problem_.has_mask || rows.count % isa_.n != 0);
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
      isa_.matmul_n({s.k_t + std::int64_t{first} * isa_.m * plan_.element, std::ptrdiff_t{keys.padded} * isa_.m,
                     ds_n(s, p) + std::int64_t{first} * isa_.n * plan_.element, last - first, plan_.d_rows / isa_.m,
                     dq_panel(block, p), true, plan_.sum_chunk});
    }
    info.turn.store(static_cast<std::int32_t>(keys.index) + 1, std::memory_order_release);
  }

  // Computes dV += P^T dO and dK += dS^T Q. A key panel meets a row panel if a step has computed P and dS of this pair
  // of panels. Consecutive key panels that meet the same range of row panels form one matmul. Where two panels in this
  // range do not meet, P and dS are set to zero first.
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
        add_matmul(s.p_m, rows.d_o, plan_.dv_cols, s.dv, m, end, with);
        add_matmul(s.ds_m, rows.q, plan_.d_cols, s.dk, m, end, with);
      }
      m = end;
    }
  }

  template <class Meets>
  void clear_unmet(BackwardScratch& s, const Range& with, int m, const Meets& meets) const {
    const std::int64_t chunk_bytes = std::int64_t{isa_.n} * isa_.m * plan_.element;
    for (int p = with.first; p < with.last; ++p) {
      if (meets(p, m)) continue;
      std::fill_n(s.p_m + (std::int64_t{m} * plan_.panels + p) * chunk_bytes, chunk_bytes, char{0});
      std::fill_n(s.ds_m + (std::int64_t{m} * plan_.panels + p) * chunk_bytes, chunk_bytes, char{0});
    }
  }

  void add_matmul(const char* m_operand, const char* n_operand, int cols, float* c, int m, int end,
                  const Range& with) const {
    const std::int64_t rows = plan_.block_rows, skipped = std::int64_t{with.first} * isa_.n;
    for (int col = 0; col < cols; col += isa_.cols) {
      isa_.matmul_cols(
          {m_operand + (m * rows + skipped) * isa_.m * plan_.element, rows * isa_.m,
           n_operand + (col * rows + skipped * isa_.cols) * plan_.element, (with.last - with.first) * isa_.n, end - m,
           c + std::int64_t{col} * plan_.block_keys + std::int64_t{m} * isa_.m * isa_.cols, true, plan_.sum_chunk});
    }
  }

  static void wait_for_turn(const RowInfo& info, std::int64_t key_block) {
    for (int spins = 0; info.turn.load(std::memory_order_acquire) != key_block; ++spins) {
      if (spins > 1000) std::this_thread::yield();
    }
  }

  // Computes the matmuls for dV, dK and dQ element by element over allowed pairs only. Used for non-finite input, where
  // a product 0 * NaN of a masked pair would spread.
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
          if (problem_.has_mask && lanes.mask[lane][key * problem_.mask.stride[3]] == 0) continue;
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
    if (index >= row_blocks_of(problem_, plan_, unit.extent.seqlen_q)) return;
    const RowBlock rows = row_block(problem_, plan_, unit.extent.seqlen_q, index);
    float divisor[kMaxLanes];
    std::fill_n(divisor, isa_.n, isa_.boost);
    for (int p = 0; p * isa_.n < rows.count; ++p) {
      const int count = std::min(isa_.n, rows.count - p * isa_.n);
      query_rows(problem_, unit, problem_.dq, rows.first + p * isa_.n, count, count, s.rows);
      isa_.store_lanes({dq_panel(block_at(u, index), p), const_cast<void* const*>(s.rows), count, d(), problem_.scale,
                        divisor, problem_.dtype});
    }
  }
};

}  // namespace

std::size_t backward_workspace(const Problem& problem, const Plan& plan) {
  Carver carver(nullptr);
  carve_backward(problem, plan, carver);
  return carver.used();
}

bool backward(const Problem& problem, const Plan& plan, void* workspace) {
  Carver carver(workspace);
  const BackwardWorkspace carved = carve_backward(problem, plan, carver);
  Packer pack(*plan.isa);
  return Backward(problem, plan, carved, pack).run();
}

}  // namespace strobe::cpu
