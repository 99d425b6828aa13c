// Interface between flash2's driver (forward.cpp, backward.cpp) and its kernels. The driver is plain C++ and decides on
// blocks, threads and order. The kernels are compiled once per instruction set (isa/*.cpp). The interface contains
// only plain data, function pointers and short member functions. The object files of the kernels must not define an
// inline function (tools/check-isa): the linker could use, for the whole program, the copy built for AVX-512, which
// fails on a machine without it.
//
// Geometry. All matmuls are C[M x N] (+)= A[M x K] B[K x N], computed in micro-tiles of m rows and n columns:
//   scores    S^T[keys x rows]  = K   [keys x d]     Q^T [d x rows]
//   output    O^T[dv x rows]   += V^T [dv x keys]    P^T [keys x rows]
//   backward  dP^T[keys x rows] = V   [keys x dv]    dO^T[dv x rows]
//             dQ^T[d x rows]   += K^T [d x keys]     dS^T[keys x rows]
//             dV  [keys x dv]  += P^T [keys x rows]  dO  [rows x dv]
//             dK  [keys x d]   += dS^T[keys x rows]  Q   [rows x d]
// In a score tile, a vector lane is a query row. Softmax therefore needs no shuffles, and with fp32 panels the tile
// already is the right operand of the next matmul. The left operand is stored as M panels of `m` rows. The right
// operand is stored as N panels of `n` (query lanes) or `cols` (columns of a head dimension). C tiles are contiguous
// fp32 [row][n or cols]. A panel is a sequence of chunks of `k` steps of the contraction:
//   M chunk [m][k]              step t of row r at r * k + t
//   N chunk [k / p][n][p]       step t of column c at (t / p) * n * p + c * p + t % p
// Step t0 of a panel (t0 a multiple of k) is therefore t0 * m (or t0 * n) elements after its start. p is the number of
// steps that an N chunk stores side by side per column: 1 for fp32, otherwise 2 or 4. Rows, columns and steps beyond
// the matrix are zeros. Elements are fp32, or bf16 if the instruction set multiplies bf16, or split floats. A split
// float represents an fp32 number as the sum of `terms` bf16 numbers. A chunk of split floats consists of `terms` bf16
// chunks, the first of which holds the first term of every element. In comments, "steps d" means that the contraction
// runs over d.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strobe/dtype.h"

namespace strobe::cpu {

inline constexpr int kLongSumChunk = 192;  // steps per fp32 partial sum, to limit the rounding error of long sums
inline constexpr int kMaxLanes = 32;       // largest n of any instruction set

// Rows of the caller's matrix [count x cols] to pack. A null row packs as zeros.
struct Pack {
  const void* const* rows;
  int count;       // number of rows
  int cols;        // columns per row
  DType dtype;     // type of the source elements
  int col_stride;  // 1, or 0 for an expanded last dimension
  void* out;
  int following = 0;  // number of further entries of `rows`, which may be null; packing may prefetch these rows
};

// Computes C_i (+)= M_i N for `panels` M panels M_i and one N panel N.
struct Matmul {
  const void* m;
  std::ptrdiff_t m_stride;  // elements from one M panel to the next
  const void* n;
  int steps;  // contraction steps, a multiple of k
  int panels;
  float* c;  // [panels][m][n or cols]
  bool accumulate;
  int sum_chunk = kLongSumChunk;  // steps per fp32 partial sum
};

// Visible key range of each lane (query row) of one N panel. Lanes past the last row repeat the last row.
struct Lanes {
  int count;                   // number of rows
  std::int32_t lo[kMaxLanes];  // keys [lo, hi) of the sequence
  std::int32_t hi[kMaxLanes];
  std::int32_t lo_min, hi_max;   // no lane sees a key outside [lo_min, hi_max); empty if no lane sees any key
  std::int32_t lo_max, hi_min;   // every lane sees every key in [lo_max, hi_min)
  std::int32_t row[kMaxLanes];   // index of the row in its sequence (i)
  std::int32_t head[kMaxLanes];  // query head
  float d_lse[kMaxLanes];        // backward only: gradient of LSE; 0 if no key is visible, and past the last row
  // Set only with a bias, a boolean mask, ALiBi or dropout:
  std::int32_t diagonal[kMaxLanes];     // i + offset
  float slope[kMaxLanes];               // ALiBi slope of the row's head
  const void* bias[kMaxLanes];          // address of the bias of the row's first key
  const std::uint8_t* mask[kMaxLanes];  // address of the boolean mask of the row's first key
  float* dbias[kMaxLanes];  // backward: set for every lane, or null for all; several lanes may share one row of dbias
};

// Parameters that convert a score q.k into a logit and the logit into a probability; the same for all rows of a unit.
struct CpuScoreOptions {
  bool plain;  // the only option is a positive scale: scores stay in units of q.k, and apply_options() is skipped
  float scale;
  float unit;     // logit = unit * tile score with options applied. It is the scale if a positive scale is the only
                  // option besides a boolean mask, softcap if neither ALiBi nor a bias follows it, otherwise 1.
  float softcap;  // 0: off
  bool alibi;
  bool bias;
  DType bias_dtype;
  bool mask;                   // a boolean mask
  std::ptrdiff_t mask_stride;  // elements from one key to the next
  bool exact_max = false;  // makes the probability of a row's largest score exactly 1; slower, used to recompute LSE
  bool dropout;
  std::uint32_t dropout_threshold;  // as dropout_threshold() in core/philox.h
  float dropout_scale;              // factor of kept probabilities
  std::uint64_t seed;
  std::int32_t batch;      // index of the sequence, for the Philox counter
  std::int32_t k_skipped;  // keys before the sequence's first one, which the key index of the Philox counter includes

  // True if the size of logits is limited by that of q.k. ALiBi and a bias add terms without such a limit.
  bool bounded() const { return !alibi && !bias; }
  // True if rows with near exponents (kNearExponent) may use s * factor - m * factor.
  bool may_be_near() const { return bounded() && !exact_max; }
  // Factor that converts a tile's scores to base-2 exponents.
  float exponent_factor() const {
    const float factor = unit * 1.44269504088896340736f;
    return factor > 0x1.fffffep127f ? 0x1.fffffep127f : factor;
  }
};

// A base-2 exponent is called near if its magnitude is below this; a float of that size still resolves 1/16. Let s be a
// score and m the row's maximum. If may_be_near() and m * factor is near, the exponent is s * factor - m * factor.
// Otherwise it is (s - m) * factor.
inline constexpr float kNearExponent = 0x1p20f;

// Prefetch state of the software-pipelined forward, which prefetches one cache line of each tensor per kScoresOfFetch
// scores. If a tensor has more lines, `step` skips some, and the hardware prefetcher covers those.
inline constexpr int kScoresOfFetch = 64;
struct Prefetch {
  const char* tensors[4];  // O of this unit; Q, K and V of the next unit
  std::ptrdiff_t at;       // bytes from a tensor's start to the next line to prefetch
  std::ptrdiff_t step;     // bytes between prefetched lines
  std::ptrdiff_t last;     // upper bound of `at`; once `at` reaches it, the same line is prefetched again
};

// Forward of one panel of query rows against one block of keys. n is the panel's width, which is smaller for
// Isa::narrow.
struct ForwardStep {
  const void* k;             // [keys / m][d][m]: M panels of the block, steps d
  const void* v;             // [dv / m][block_keys][m]: M panels of V^T, steps keys
  int block_keys;            // contraction steps of v's panels: key_count rounded up to Isa::step
  int key_begin, key_count;  // the block's keys in the sequence
  int d_steps, dv_rows;      // head dimensions, padded to k and to m
  const void* q;             // [d][n]: N panel
  const Lanes* lanes;
  const CpuScoreOptions* options;
  float* o;                   // [dv_rows][n]: running O^T, not normalised
  float* max;                 // [n]: running maximum, in units of the scores
  float* sum;                 // [n]: running sum of exp(score - max)
  float* scores;              // [block_keys][n]: scratch
  void* probabilities;        // [block_keys][n]: scratch, the probabilities as N operand
  float* shrink;              // [n]: scratch, software pipelining only: factor that rescales o to the new maximum
  float* largest;             // [n]: scratch, software pipelining only: maximum of max and the block's scores
  std::uint32_t* words;       // [block_keys][n]: scratch for random words, with dropout only
  const void* const* v_rows;  // rows of V in the caller's memory if some are not finite, else null
  DType dtype;
  int dv;
  int sum_chunk = kLongSumChunk;
  bool begins = false;  // o and sum are zeros, so output may be stored instead of added
  Prefetch* prefetch = nullptr;
};

// Backward of one panel of query rows against one block of keys: computes S, dP, P and dS. The driver then runs the
// matmuls that have P and dS as operands.
struct BackwardStep {
  const void* k;  // M panels, steps d
  const void* v;  // M panels, steps dv
  int key_begin, key_count;
  int first, last;  // rows of the tile to fill, relative to the block; multiples of Isa::step
  int d_steps, dv_steps;
  const void* q;    // N panel, steps d
  const void* d_o;  // N panel, steps dv
  const Lanes* lanes;
  const CpuScoreOptions* options;
  bool whole;             // no lane sees a key outside the block, so softmax is recomputed without using LSE and delta
  const float* sinks;     // [n]: optional, only if whole
  float* max;             // [n]: output if whole: largest logit, sink included
  float* sum;             // [n]: output if whole: sum of exp(logit - max), sink included
  const float* lse_high;  // [n]: LSE * log2(e) is lse_high + lse_low (see split_lse); huge if the row has no keys
  const float* lse_low;
  bool far;  // an LSE of the row block is not near; lse_high is then the row's largest score, and lse_low is LSE minus
             // the logit of that score, times log2(e)
  float* delta;      // [n]: sum of dO * O minus the gradient of LSE; recomputed if whole
  float* delta_sum;  // [n]: if not null: only add the sum of P * dP (recomputed delta) to this; write no other output
  float* scores;     // [block_keys][n]: scratch for S, then P
  float* d_scores;   // [block_keys][n]: scratch for dP, then dS
  float* slopes;     // [block_keys][n]: scratch, with softcap only: derivative of tanh
  std::uint32_t* words;     // [block_keys][n]: scratch for random words, with dropout only
  void* ds_n;               // [block_keys][n]: dS as N operand, steps keys
  void* p_m;                // P as M panels, steps rows; the n steps of key panel r go to p_m + r * m_stride
  void* ds_m;               // dS, with the layout of p_m
  std::ptrdiff_t m_stride;  // elements from one M panel to the next
  int sum_chunk = kLongSumChunk;
  float* p_tile;  // if not null, P (with dropout) and dS are stored as plain tiles instead, for non-finite input
  float* ds_tile;
};

// Stores the transposed output c [d][n] of one panel to the caller's rows: rows[lane][j] = c[j][lane] * factor /
// divisor[lane]. The kernel divides, because a rounded reciprocal would scale the whole row by the same error.
struct StoreLanes {
  const float* c;
  void* const* rows;  // [lanes]
  int lanes, cols;
  float factor;
  const float* divisor;  // [n]
  DType dtype;
};

// Stores c * factor to the caller's rows. c is [cols / w][rows][w] with w = Isa::cols.
struct StoreCols {
  const float* c;
  std::ptrdiff_t panel_stride;  // elements from one column panel to the next
  void* const* rows;
  int count, cols;
  float factor;
  DType dtype;
};

// Dot products of rows: out[r] = a_r . b_r
struct DotRows {
  const void* const* a;
  const void* const* b;
  int count, cols;
  DType dtype;
  int a_col_stride;  // 1 or 0
  float* out;
};

// Forward kernels for panels of n query rows, one row per lane.
struct RowPanel {
  int n;
  bool (*pack_n)(const Pack&);  // one N panel of up to n rows, steps = columns
  void (*forward_step)(const ForwardStep&);
  void (*store_lanes)(const StoreLanes&);
};

struct Isa {
  const char* name;  // value of STROBE_CPU_ISA
  DType compute;     // element type of packed panels: fp32 or bf16
  int element;       // bytes per element
  int terms;         // bf16 numbers per split float, or 1
  bool interleaved;  // chunks whose steps are query rows (P and dS as M operands, pack_nt) hold steps t and t + k / 2
                     // next to each other
  int m, n, cols, k, p;  // see the top of this file
  bool fused;            // has fused multiply-add
  int step;              // least common multiple of m and k: the granularity of key ranges
  int small_sum_chunk;   // steps per fp32 partial sum of scores in small matmuls
  float boost;           // P and dS are multiplied by this as operands; the driver divides results by it
  // The pack functions return true if a value is not finite. With split floats they also return true if values are so
  // large or so small that precision would be lost (isa/split_float.h).
  bool (*pack_m)(const Pack&);   // M panels of the rows, steps = columns
  bool (*pack_mt)(const Pack&);  // M panels of the columns, steps = rows
  bool (*pack_n)(const Pack&);   // one N panel of up to n rows, steps = columns
  bool (*pack_nt)(const Pack&);  // N panels of `cols` columns, steps = rows
  void (*matmul_n)(const Matmul&);
  void (*matmul_cols)(const Matmul&);
  void (*forward_step)(const ForwardStep&);
  // Software pipelining over three consecutive ForwardSteps: computes the output of the first, the probabilities of the
  // second and the logits of the third. Each may be null. The function pointer is null if the instruction set gains
  // nothing from pipelining.
  void (*forward_pipelined)(const ForwardStep*, const ForwardStep*, const ForwardStep*);
  void (*backward_step)(const BackwardStep&);
  void (*store_lanes)(const StoreLanes&);
  void (*store_cols)(const StoreCols&);
  void (*dot_rows)(const DotRows&);
  // Tail panels, which have fewer lanes. A forward uses them for the last rows of a row block if panels of n lanes
  // would be emptier. narrow.n is 0 if the instruction set has none.
  RowPanel narrow;

  RowPanel wide() const { return {n, pack_n, forward_step, store_lanes}; }
};

// Returns the best instruction set of this machine for a type. If `forced` is not "", sets that are more capable than
// the one called `forced` are excluded. Sets with split floats are considered only if `terms` is Terms::allowed. Throws
// Error(unsupported) if instruction_set_refusal(forced) returns a reason. Each API call reads STROBE_CPU_ISA once
// (Problem::cpu_isa), because a set chosen after the workspace was sized could overrun it.
enum class Terms { allowed, refused };
const Isa& choose_isa(DType dtype, const char* forced, Terms terms = Terms::allowed);

// Returns the table of the named instruction set for panels of a type, or null if this machine or build lacks it.
const Isa* find_isa(const char* name, DType compute);

}  // namespace strobe::cpu
