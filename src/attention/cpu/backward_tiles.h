// Workspace and tiles of the backward pass. BackwardTiles packs row panels and key blocks, and runs the step that
// computes P and dS of one panel against one key block. RowPreparation (row_preparation.h) and Backward (backward.cpp)
// derive from it. plan.h defines units, row blocks and panels.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>

#include "attention/cpu/plan.h"
#include "attention/cpu/work_stealing.h"

namespace strobe::cpu {

// Scratch of one thread. isa.h defines M panels, N panels, steps, m, n and cols; Plan has the other sizes.
struct BackwardScratch {
  char* k;               // [block_keys][d_steps]: M panels of K, steps d
  char* k_t;             // [d_rows][block_keys]: M panels of K^T, steps keys
  char* v;               // [block_keys][dv_steps]: M panels of V, steps dv
  float* dk;             // [d_cols / cols][block_keys][cols]: sums of dK
  float* dv;             // [dv_cols / cols][block_keys][cols]: sums of dV
  float* scores;         // [block_keys][n]: S, one tile
  float* d_scores;       // [block_keys][n]: dP, then dS, one tile; null with fp32 panels, which use ds_n
  float* slopes;         // [block_keys][n]: derivative of softcap's tanh, one tile
  std::uint32_t* words;  // [block_keys][n]: dropout's random words, one tile
  char* ds_n;            // [panels][block_keys][n]: dS as N operand
  char* p_m;             // [block_keys / m][block_rows][m]: P as M operand
  char* ds_m;            // [block_keys / m][block_rows][m]: dS as M operand
  char* q;               // [panels][d_steps][n]: N panels of Q, steps d, if not prepacked
  char* d_o;             // [panels][dv_steps][n]: N panels of dO, steps dv, if not prepacked
  char* q_t;             // [d_cols][block_rows]: N panels of Q, steps rows, if not kept
  char* do_t;            // [dv_cols][block_rows]: N panels of dO, steps rows, if not kept
  float* p_tile;         // [panels][block_keys][n]: P as plain tiles, for non-finite input
  float* ds_tile;        // [panels][block_keys][n]: dS as plain tiles, for non-finite input
  Lanes* lanes;          // [panels]: key ranges of the rows
  const void** rows;     // [max(block_rows, block_keys)]: addresses of rows to pack or store
};

// State of a row block. All key blocks read this state, and each updates `turn`.
struct RowInfo {
  std::int32_t first_block, last_block;  // key blocks [first, last) that at least one row sees
  bool odd;                              // Q or dO has a value that is not finite
  bool far;                              // the LSE of at least one row is large (has_far_lse())
  std::atomic<std::int32_t> turn;        // the key block that may add to dQ next (ordered accumulation)
};

struct BackwardWorkspace {
  BackwardScratch* scratch;  // [threads]
  UnitInFlight* in_work;     // [threads]: with unit_tasks
  RowInfo* info;             // [group_units][row_blocks]
  char* q;                   // [group_units][row_blocks][panels][d_steps][n]: N panels of Q, if prepacked
  char* d_o;                 // [group_units][row_blocks][panels][dv_steps][n]: N panels of dO, if prepacked
  char* q_t;                 // [group_units][row_blocks][d_cols][block_rows]: N panels of Q, steps rows, if kept
  char* do_t;                // [group_units][row_blocks][dv_cols][block_rows]: N panels of dO, steps rows, if kept
  float* dq;                 // [group_units][row_blocks][panels][d_rows][n]: sums of dQ^T
  float* lse_high;           // [group_units][row_blocks][block_rows]: LSE * log2(e) in two floats (split_lse)
  float* lse_low;            // [group_units][row_blocks][block_rows]: the second float
  float* delta;              // [group_units][row_blocks][block_rows]: delta minus the gradient of LSE
  float* sink_weight;        // [group_units][row_blocks][block_rows]: with dsinks: probability of the sink
};

BackwardWorkspace carve_backward(const Problem& problem, const Plan& plan, Carver& carver);

class BackwardTiles {
 public:
  BackwardTiles(const Problem& problem, const Plan& plan, const BackwardWorkspace& workspace, Packer& pack)
      : problem_(problem), plan_(plan), isa_(*plan.isa), workspace_(workspace), pack_(pack) {}

 protected:
  // Returns the index of a row block in the arrays of its group of units.
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

  // A packed block: `count` keys from key `first` on, padded to `padded` keys, a multiple of Isa::step. odd: K has a
  // value that is not finite.
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

  // Output of a step. operands: P and dS, packed. tiles: P and dS as plain tiles. delta: only the sum of P * dP.
  enum class Use { operands, tiles, delta };

  KeyBlock pack_keys(BackwardScratch& s, const Unit& unit, std::int64_t index) const;
  Range tile_rows(const KeyBlock& keys, const Lanes& lanes) const;

  // Returns true if dP of a row is left out. A row that sees a single key has probability 1 for any score, so its dS is
  // the gradient of LSE. Subtracting delta from dP would add a rounding error to dS.
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

  // Computes P and dS of one panel of rows against the block's keys; `use` selects the output.
  void step(BackwardScratch& s, const KeyBlock& keys, const CpuScoreOptions& options, int p, const Range& range,
            std::int64_t block, Use use, float* delta_sum = nullptr) const;

  const Problem& problem_;
  const Plan& plan_;
  const Isa& isa_;
  const BackwardWorkspace& workspace_;
  Packer& pack_;
};

}  // namespace strobe::cpu
