// Memory of flash2's backward pass on the CPU: what each thread, each row block and each group of units needs.
// backward.cpp works in it.
#pragma once

#include <atomic>
#include <cstdint>

#include "attention/cpu/plan.h"
#include "attention/cpu/units_in_work.h"

namespace strobe::cpu {

// BackwardScratch of one thread. Blocks are [block_keys] x [block_rows].
struct BackwardScratch {
  char* k;               // M panels, steps d                      [block_keys][d_steps]
  char* k_t;             // M panels of the transpose, steps keys  [d_rows][block_keys]
  char* v;               // M panels, steps dv                     [block_keys][dv_steps]
  float* dk;             // C tiles                                [d_cols / cols][block_keys][cols]
  float* dv;             //                                        [dv_cols / cols][block_keys][cols]
  float* scores;         // tile                                   [block_keys][n]
  float* d_scores;       // tile, where tiles are converted        [block_keys][n]
  float* slopes;         // tile, with softcap                     [block_keys][n]
  std::uint32_t* words;  // tile, with dropout                  [block_keys][n]
  char* ds_n;            // N operands                             [panels][block_keys][n]
  char* p_m;             // M operands                             [block_keys / m][block_rows][m]
  char* ds_m;            //                                        [block_keys / m][block_rows][m]
  char* q;               // N panels, where not prepacked          [panels][d_steps][n]
  char* d_o;             //                                        [panels][dv_steps][n]
  char* q_t;             // N panels, steps rows, where not kept   [d_cols][block_rows]
  char* do_t;            //                                        [dv_cols][block_rows]
  float* p_tile;         // plain tiles in place of M operands, for input not finite   [panels][block_keys][n]
  float* ds_tile;        //                                        [panels][block_keys][n]
  Lanes* lanes;          //                                        [panels]
  const void** rows;     //                                        [max(block_rows, block_keys)]
};

// What a row block brings to every key block.
struct RowInfo {
  std::int32_t first_block, last_block;  // key blocks [first, last) that some row sees
  bool odd;                              // Q or dO hold a value that is not finite
  bool far;                              // some row's LSE is (see has_far_lse)
  std::atomic<std::int32_t> turn;        // the key block that may add to dQ next
};

struct BackwardWorkspace {
  BackwardScratch* scratch;  // [threads]
  UnitInWork* in_work;       // where units are tasks [threads]
  RowInfo* info;             // [group_units][row_blocks]
  char* q;                   // N panels, steps d, where prepacked [group_units][row_blocks][panels][d_steps][n]
  char* d_o;                 // N panels, steps dv    [group_units][row_blocks][panels][dv_steps][n]
  char* q_t;                 // N panels, steps rows, where kept   [group_units][row_blocks][d_cols][block_rows]
  char* do_t;                //                       [group_units][row_blocks][dv_cols][block_rows]
  float* dq;                 // dQ^T                  [group_units][row_blocks][panels][d_rows][n]
  float* lse_high;           // see split_lse         [group_units][row_blocks][block_rows]
  float* lse_low;            //                       [group_units][row_blocks][block_rows]
  float* delta;              //                       [group_units][row_blocks][block_rows]
  float* sink_weight;        // with dsinks           [group_units][row_blocks][block_rows]
};

BackwardWorkspace carve_backward(const Problem& problem, const Plan& plan, Carver& carver);

}  // namespace strobe::cpu
