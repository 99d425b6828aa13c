// The border between flash2's driver (forward.cpp, backward.cpp: blocks, threads, order; plain C++) and the inner
// code, compiled once per instruction set (isa/*.cpp). Everything below is plain data and function pointers, so that
// no inline function crosses it: code built for AVX-512 can never be picked by the linker for a lesser machine.
//
// Geometry. All products are C[M x N] (+)= A[M x K] B[K x N], on micro-tiles of m rows and n columns:
//   scores      S^T[keys x rows]  = K   [keys x d]     Q^T [d x rows]      one lane of a vector is one query row,
//   output      O^T[dv x rows]   += V^T [dv x keys]    P^T [keys x rows]   so softmax needs no shuffles and the
//   (backward)  dP^T[keys x rows] = V   [keys x dv]    dO^T[dv x rows]     score tile is the next product's operand
//               dQ^T[d x rows]   += K^T [d x keys]     dS^T[keys x rows]
//               dV  [keys x dv]  += P^T [keys x rows]  dO  [rows x dv]
//               dK  [keys x d]   += dS^T[keys x rows]  Q   [rows x d]
// The left operand is stored as M panels of `m` rows, the right one as N panels of `n` (query lanes) or `cols`
// (columns of a head dimension), C tiles as fp32 [row][n or cols], contiguous. A panel is a sequence of chunks of `k`
// steps of the contraction:
//   M chunk [m][k]              step t of row r at r * k + t
//   N chunk [k / p][n][p]       step t of column c at (t / p) * n * p + c * p + t % p
// so the panel from step t0 (a multiple of k) on starts t0 * m (or t0 * n) elements later. Rows, columns and steps
// beyond the matrix are zeros. Elements are fp32, or bf16 where the instruction set multiplies bf16 itself, or fp32 as
// a sum of `parts` bf16: then a chunk is one of bf16 for each part, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strobe/dtype.h"

namespace strobe::cpu {

inline constexpr int kLongPiece = 192;  // a sum in fp32 is rounded to its full size once in so many steps
inline constexpr int kMaxLanes = 32;    // largest n of any instruction set

// Rows of the caller's matrix [count x cols], to be packed. A null row is a row of zeros.
struct Pack {
  const void* const* rows;
  int count;       // rows given
  int cols;        // columns of each
  DType dtype;     // of the source
  int col_stride;  // 1, or 0 for an expanded last dimension
  void* out;
  int following = 0;  // elements of `rows` after these, null or packed next: packing may fetch them (pack_parts.h does)
};

// C_i (+)= M_i N for `panels` M panels.
struct Multiply {
  const void* m;
  std::ptrdiff_t m_stride;  // elements from one M panel to the next
  const void* n;
  int steps;  // of the contraction, a multiple of k
  int panels;
  float* c;  // [panels][m][n or cols]
  bool accumulate;
};

// What the lanes of one N panel of query rows may see. Lanes past the last row repeat the last one.
struct Lanes {
  int count;                   // rows that exist
  std::int32_t lo[kMaxLanes];  // keys [lo, hi) of the sequence
  std::int32_t hi[kMaxLanes];
  std::int32_t lo_min, hi_max;   // no lane sees a key outside of this; lo_min >= hi_max: no lane sees any
  std::int32_t lo_max, hi_min;   // every lane sees the keys inside of this
  std::int32_t row[kMaxLanes];   // i, index of the row in its sequence
  std::int32_t head[kMaxLanes];  // hq
  // Where there are a bias, ALiBi or dropout:
  std::int32_t diagonal[kMaxLanes];  // i + offset
  float slope[kMaxLanes];            // ALiBi
  const void* bias[kMaxLanes];       // first key's bias of the row
  float* dbias[kMaxLanes];           // backward: of every lane, or null for all; distinct lanes may share one
};

// How q.k becomes a logit and that a weight; the same for all rows of a problem.
struct ScoreOptions {
  bool plain;  // only a positive scale: the fast path, scores stay in units of q.k
  float scale;
  float unit;     // a tile's scores, options applied, times this are logits: scale (plain), softcap (if last) or 1
  float softcap;  // 0: off
  bool alibi;
  bool bias;
  DType bias_dtype;
  bool exact_max = false;  // the weight of a row's largest score is 1 exactly: the slower way, for LSE anew
  bool dropout;
  std::uint32_t dropout_threshold;  // a weight is dropped where its Philox word is below
  float dropout_scale;              // 1 / (1 - p)
  std::uint64_t seed;
  std::int32_t batch;  // b, for the Philox counter

  // Whether logits are no larger than scores of q.k may be: a bias may hold anything.
  bool bounded() const { return !alibi && !bias; }
  // Whether weights may be taken from s * factor - m * factor, where that is near (kNearExponent).
  bool may_be_near() const { return bounded() && !exact_max; }
  // What a tile's scores are multiplied with to be exponents of 2.
  float exponent_factor() const {
    const float factor = unit * 1.44269504088896340736f;
    return factor > 0x1.fffffep127f ? 0x1.fffffep127f : factor;
  }
};

// Exponents of 2 below this are near: a float of their size still resolves a sixteenth. Weights of rows whose largest
// logit is near are taken from s * factor - m * factor where they may be, of others from (s - m) * factor.
inline constexpr float kNearExponent = 0x1p20f;

// Memory that is wanted soon: steps that flow fetch a line of each tensor for every kScoresOfFetch scores. Where there
// are more lines than that, those between are left to the hardware, which brings neighbours. Lines may lie past an end.
inline constexpr int kScoresOfFetch = 64;
struct Soon {
  const char* tensors[4];  // O, and Q, K and V of the unit after it
  std::ptrdiff_t at;       // bytes from a tensor's beginning to the line in turn
  std::ptrdiff_t step;     // to the one after it
  std::ptrdiff_t last;     // at the end fetched again and again
};

// One panel of rows against one block of keys; n is the panel's, which may be a narrow one (Isa::narrow).
struct ForwardStep {
  const void* k;             // M panels of the block, steps d                    [keys / m][d][m]
  const void* v;             // M panels of its transpose, rows dv, steps keys    [dv / m][block_keys][m]
  int block_keys;            // steps of v's panels: key_count rounded up to `step`
  int key_begin, key_count;  // the block's keys in the sequence
  int d_steps, dv_rows;      // padded to k and to m
  const void* q;             // N panel                                           [d][n]
  const Lanes* lanes;
  const ScoreOptions* options;
  float* o;                   // running O^T, not normalised                       [dv_rows][n]
  float* max;                 // running, in units of the scores                   [n]
  float* sum;                 // running sum of exp(score - max)                   [n]
  float* scores;              // scratch                                           [block_keys][n]
  void* weights;              // scratch, the weights as N operand                 [block_keys][n]
  float* shrink;              // scratch, where steps flow: what o is multiplied with before output is added  [n]
  float* largest;             // scratch, where steps flow: the largest of max and the block's scores          [n]
  std::uint32_t* words;       // scratch, with dropout only                        [block_keys][n]
  const void* const* v_rows;  // rows of V in the caller's memory, where some are not finite; else null
  DType dtype;
  int dv;
  int piece = kLongPiece;
  bool begins = false;  // o and sum are zeros, so that output may be written there instead of added
  Soon* soon = nullptr;
};

// One panel of rows against one block of keys: P and dS from S and dP. Products with them are made by Multiply.
struct BackwardStep {
  const void* k;  // M panels, steps d
  const void* v;  // M panels, steps dv
  int key_begin, key_count;
  int first, last;  // rows of the tile to fill, relative to the block; multiples of `step`
  int d_steps, dv_steps;
  const void* q;    // N panel, steps d
  const void* d_o;  // N panel, steps dv
  const Lanes* lanes;
  const ScoreOptions* options;
  bool whole;          // no lane sees a key outside of the block: softmax starts anew, without lse and delta
  const float* sinks;  // where whole, optional                             [n]
  float* max;          // where whole: the largest logit and the sum of exp(logit - max), sink included  [n]
  float* sum;
  const float* lse_high;  // LSE * log2(e) in two parts, the first in few bits; huge where the row has no keys  [n]
  const float* lse_low;
  bool far;      // an LSE of the row block is not near: lse_high is the largest score, lse_low what LSE has beyond it
  float* delta;  // sum of dO * O; where whole, anew                  [n]
  float* delta_sum;         // where not null: only add the sum of P * dP, which is delta anew, and leave the rest  [n]
  float* scores;            // scratch                                           [block_keys][n]
  float* d_scores;          // scratch                                           [block_keys][n]
  float* slopes;            // scratch, d capped / d score, with softcap only    [block_keys][n]
  std::uint32_t* words;     // scratch, with dropout only                        [block_keys][n]
  void* ds_n;               // dS as N operand, steps keys                       [block_keys][n]
  void* p_m;                // P as M panels, steps rows: this panel's n steps of key panel r go to p_m + r * stride
  void* ds_m;               // dS likewise
  std::ptrdiff_t m_stride;  // elements
  int piece = kLongPiece;
  float* p_tile;  // where not null: P (with dropout) and dS as plain tiles instead, for non-finite input
  float* ds_tile;
};

// C^T [d][n] of one panel to the caller's rows: out[lane][c] = c[c][lane] * factor / divisor[lane]. (A
// rounded reciprocal would make a whole row err by the same share.)
struct StoreLanes {
  const float* c;
  void* const* rows;  // [lanes]
  int lanes, cols;
  float factor;
  const float* divisor;  // [n]
  DType dtype;
};

// C [cols / w][rows][w], w = cols of the instruction set, to the caller's rows, times a factor.
struct StoreCols {
  const float* c;
  std::ptrdiff_t panel_stride;  // elements from one column panel to the next
  void* const* rows;
  int count, cols;
  float factor;
  DType dtype;
};

// out[r] = a_r . b_r
struct DotRows {
  const void* const* a;
  const void* const* b;
  int count, cols;
  DType dtype;
  int a_col_stride;  // 1 or 0
  float* out;
};

// Query rows as lanes of a forward.
struct RowPanel {
  int n;
  bool (*pack_n)(const Pack&);  // one N panel of up to n rows, steps = columns
  void (*forward_step)(const ForwardStep&);
  void (*store_lanes)(const StoreLanes&);
};

struct Isa {
  const char* name;      // as in STROBE_CPU_ISA
  DType compute;         // what an element of packed panels holds: fp32 or bf16
  int element;           // its bytes
  int parts;             // bf16 numbers that it is a sum of, or 1
  bool interleaved;      // where steps are query rows (P and dS as M operands, pack_nt), t and t + k / 2 are neighbours
  int m, n, cols, k, p;  // see the head of this file
  bool fused;            // multiplies and adds with one rounding
  int step;              // least common multiple of m and k: the grain of key ranges
  int small_piece;       // steps of a piece of a small product's scores, in fp32
  float boost;  // P and dS as operands are multiplied with this, so that products with them are too large by it
  // Each returns whether a value that is not finite was met; in parts, also whether the rows' values are so large or so
  // small that their parts or products with them would be lost (isa/parts.h).
  bool (*pack_m)(const Pack&);   // M panels of the rows, steps = columns
  bool (*pack_mt)(const Pack&);  // M panels of the columns, steps = rows
  bool (*pack_n)(const Pack&);   // one N panel of up to n rows, steps = columns
  bool (*pack_nt)(const Pack&);  // N panels of `cols` columns, steps = rows
  void (*multiply_n)(const Multiply&);
  void (*multiply_cols)(const Multiply&);
  void (*forward_step)(const ForwardStep&);
  // Of three neighbours in the order of steps, the output of the first, the weights of the second and the logits of the
  // third; null where there is none, and the function itself where the instruction set gains nothing from it.
  void (*forward_flow)(const ForwardStep*, const ForwardStep*, const ForwardStep*);
  void (*backward_step)(const BackwardStep&);
  void (*store_lanes)(const StoreLanes&);
  void (*store_cols)(const StoreCols&);
  void (*dot_rows)(const DotRows&);
  // For the last rows of a forward's row block, where panels of n would have more empty lanes: nothing but n differs.
  // Its n is 0 where there is none.
  RowPanel narrow;

  RowPanel wide() const { return {n, pack_n, forward_step, store_lanes}; }
};

// The best instruction set of this machine for a type, or the named one where the name is not "". Of those in parts
// only where `parts` is allowed. Throws Error(unsupported) with instruction_set_refusal's reason. A call reads
// STROBE_CPU_ISA once (Problem::cpu_isa): were it read again after the workspace was sized, a change in between would
// overrun that.
enum class Parts { allowed, refused };
const Isa& choose_isa(DType dtype, const char* forced, Parts parts = Parts::allowed);

// The named set's table for panels of a type, or null where this machine or build does not have it.
const Isa* find_isa(const char* name, DType compute);

}  // namespace strobe::cpu
