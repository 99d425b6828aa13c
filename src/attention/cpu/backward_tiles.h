// Workspace and tiles of the backward pass. BackwardTiles packs row panels and key blocks, and runs the step that
// computes P and dS of one panel against one key block. RowPreparation and Backward derive from it. plan.h defines
// units, row blocks and panels.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>

#include "attention/cpu/plan.h"
#include "attention/cpu/work_stealing.h"

namespace strobe::cpu {

// Scratch of one thread. Blocks are [block_keys] x [block_rows].
struct BackwardScratch {
  char* k;               // M panels of K, steps d                 [block_keys][d_steps]
  char* k_t;             // M panels of K^T, steps keys            [d_rows][block_keys]
  char* v;               // M panels of V, steps dv                [block_keys][dv_steps]
  float* dk;             // sums of dK                             [d_cols / cols][block_keys][cols]
  float* dv;             // sums of dV                             [dv_cols / cols][block_keys][cols]
  float* scores;         // tile                                   [block_keys][n]
  float* d_scores;       // tile, unless operands are fp32         [block_keys][n]
  float* slopes;         // tile, with softcap                     [block_keys][n]
  std::uint32_t* words;  // tile, with dropout                  [block_keys][n]
  char* ds_n;            // dS as N operand                        [panels][block_keys][n]
  char* p_m;             // P as M operand                         [block_keys / m][block_rows][m]
  char* ds_m;            // dS as M operand                        [block_keys / m][block_rows][m]
  char* q;               // N panels of Q, if not prepacked        [panels][d_steps][n]
  char* d_o;             // N panels of dO, if not prepacked       [panels][dv_steps][n]
  char* q_t;             // Q with rows as steps, if not kept      [d_cols][block_rows]
  char* do_t;            // dO with rows as steps, if not kept     [dv_cols][block_rows]
  float* p_tile;         // plain tiles instead of M operands, for non-finite input              [panels][block_keys][n]
  float* ds_tile;        //                                        [panels][block_keys][n]
  Lanes* lanes;          //                                        [panels]
  const void** rows;     //                                        [max(block_rows, block_keys)]
};

// State of a row block. All key blocks read it, and each updates `turn`.
struct RowInfo {
  std::int32_t first_block, last_block;  // key blocks [first, last) that at least one row sees
  bool odd;                              // Q or dO has a value that is not finite
  bool far;                              // the LSE of at least one row is far (see has_far_lse)
  std::atomic<std::int32_t> turn;        // the key block that may add to dQ next (ordered accumulation)
};

struct BackwardWorkspace {
  BackwardScratch* scratch;  // [threads]
  UnitInFlight* in_work;     // with unit_tasks     [threads]
  RowInfo* info;             // [group_units][row_blocks]
  char* q;                   // N panels, steps d, if prepacked  [group_units][row_blocks][panels][d_steps][n]
  char* d_o;                 // N panels, steps dv    [group_units][row_blocks][panels][dv_steps][n]
  char* q_t;                 // N panels, steps rows, if kept    [group_units][row_blocks][d_cols][block_rows]
  char* do_t;                //                       [group_units][row_blocks][dv_cols][block_rows]
  float* dq;                 // dQ^T                  [group_units][row_blocks][panels][d_rows][n]
  float* lse_high;           // see split_lse         [group_units][row_blocks][block_rows]
  float* lse_low;            //                       [group_units][row_blocks][block_rows]
  float* delta;              // delta minus d_lse     [group_units][row_blocks][block_rows]
  float* sink_weight;        // with dsinks: sink's P [group_units][row_blocks][block_rows]
};

BackwardWorkspace carve_backward(const Problem& problem, const Plan& plan, Carver& carver);

class BackwardTiles {
 public:
  BackwardTiles(const Problem& problem, const Plan& plan, const BackwardWorkspace& workspace, Packer& pack)
      : problem_(problem), plan_(plan), isa_(*plan.isa), workspace_(workspace), pack_(pack) {}

 protected:
  // Returns the index of a row block within its group; arrays per row block are indexed by it.
  std::int64_t block_at(std::int64_t u, std::int64_t index) const { return u * plan_.row_blocks + index; }
  // Packed Q and dO of panel p of a row block: in the workspace if prepacked, else in the thread's scratch.
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
  // Tile rows [first, last) that the step of a panel computes.
  struct Range {
    int first, last;
  };

  // Output of a step: P and dS as matmul operands, the same as plain tiles, or only the sum for delta.
  enum class Use { operands, tiles, delta };

  KeyBlock pack_keys(BackwardScratch& s, const Unit& unit, std::int64_t index) const;
  Range tile_rows(const KeyBlock& keys, const Lanes& lanes) const;

  // Returns true if dP of a row is left out. A row with a single key has probability 1 for any score, so its dS is just
  // the gradient of LSE, and that is exact only without dP.
  bool leaves_out_dp(const Lanes& lanes, int lane, float delta) const {
    return !problem_.sinks && lanes.hi[lane] - lanes.lo[lane] == 1 && std::isfinite(delta);
  }

  // Packs Q and dO of a panel's rows as N panels. Returns true if a value is not finite.
  bool pack_panel(BackwardScratch& s, const Unit& unit, std::int64_t first, const Lanes& lanes, const float* delta,
                  const Panel& to) const;

  struct Transposed {
    char* q;
    char* d_o;
  };
  Transposed transposed(std::int64_t block) const {
    return {workspace_.q_t + block * plan_.block_rows * plan_.d_cols * plan_.element,
            workspace_.do_t + block * plan_.block_rows * plan_.dv_cols * plan_.element};
  }
  void pack_transposed(BackwardScratch& s, const Unit& unit, const RowBlock& rows, const Transposed& to) const;

  char* ds_n(const BackwardScratch& s, int p) const {
    return s.ds_n + std::int64_t{p} * plan_.block_keys * isa_.n * plan_.element;
  }

  // Computes P and dS of one panel of rows against the block's keys.
  void step(BackwardScratch& s, const KeyBlock& keys, const CpuScoreOptions& options, int p, const Range& range,
            std::int64_t block, Use use, float* delta_sum = nullptr) const;

  const Problem& problem_;
  const Plan& plan_;
  const Isa& isa_;
  const BackwardWorkspace& workspace_;
  Packer& pack_;
};

}  // namespace strobe::cpu
