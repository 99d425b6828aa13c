// Plan of a flash2 call on the CPU: block sizes, numbering of units and row blocks, and lane descriptions. Block sizes
// depend only on the problem and the instruction set, so results are bitwise identical for any number of threads. Used
// by forward.cpp and backward.cpp.
#pragma once

#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "attention/cpu/isa.h"
#include "attention/problem.h"
#include "core/divide.h"

namespace strobe::cpu {

// Divides a workspace into arrays. With a null base, the same calls compute only the size.
class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<char*>(base)) {}
  template <class T>
  T* take(std::int64_t count) {
    T* at = base_ ? reinterpret_cast<T*>(base_ + used_) : nullptr;
    used_ += static_cast<std::size_t>(round_up(count * static_cast<std::int64_t>(sizeof(T)), 64));
    return at;
  }
  char* bytes(std::int64_t count) { return take<char>(count); }
  std::size_t used() const { return used_; }

 private:
  char* base_;
  std::size_t used_ = 0;
};

// Consecutive query rows of one unit. Row i of query head g of the group has number g * seqlen_q + i.
struct RowBlock {
  std::int64_t first;
  int count;
};

// Divides a row block into panels: wide ones, then up to two narrow tail panels. A narrow panel holds the remaining
// rows if they fit. If two narrow panels can hold these rows and those of the last wide panel, they replace that wide
// panel too. The number of panels is the same as with wide panels only.
class PanelsOfBlock {
 public:
  PanelsOfBlock(const Isa& isa, int rows) : isa_(isa), count_(static_cast<int>(ceil_div(rows, isa.n))), wide_(count_) {
    const int rest = rows % isa.n, narrow = isa.narrow.n;
    if (rest == 0 || rest > narrow) return;
    wide_ -= rows > isa.n && isa.n + rest <= 2 * narrow ? 2 : 1;
  }
  int count() const { return count_; }
  RowPanel panel(int p) const { return p < wide_ ? isa_.wide() : isa_.narrow; }
  int first_lane(int p) const { return p < wide_ ? p * isa_.n : wide_ * isa_.n + (p - wide_) * isa_.narrow.n; }
  int lanes() const { return first_lane(count_); }

 private:
  const Isa& isa_;
  int count_, wide_;
};

inline constexpr int kMaxPanels = 32;  // largest number of panels per row block in backward

// Block sizes of a call. A unit is one KV head of one sequence with all query heads of its group.
struct Plan {
  const Isa* isa;
  int element;               // bytes of a packed element
  int d_steps, dv_steps;     // head dimensions as contraction steps, padded to k
  int d_rows, dv_rows;       // head dimensions as rows of M panels, padded to m
  int d_cols, dv_cols;       // head dimensions as columns of N panels, padded to cols
  int block_keys;            // keys per block, a multiple of step
  int panels;                // N panels per row block
  int block_rows;            // panels * n
  std::int64_t units;        // batch * heads_kv
  std::int64_t key_blocks;   // key blocks of the longest sequence
  std::int64_t row_blocks;   // row blocks of the unit with the most rows
  std::int64_t group_units;  // units computed at the same time, limited to bound the workspace
  bool unit_tasks;           // each thread packs and computes whole units, whose packed operands stay in its cache
  std::int64_t splits;       // forward: key ranges per row block (split-KV), whose outputs are combined at the end
  bool split_tasks;          // each split is a task; otherwise one task computes and combines all splits of a row block
  std::int64_t split_blocks;  // forward: key blocks per split
  int sum_chunk;              // steps per fp32 partial sum of scores, dP and gradients
  bool whole_rows;            // backward: a block holds all keys of a sequence
  int threads;                // number of threads, at most that of concurrent tasks; each thread has its own scratch
  bool prepack;               // K and V (forward) or Q and dO (backward) of a unit are packed once and kept
};

// Plans a call with the best instruction set for the problem. Terms::refused excludes instruction sets with split
// floats.
Plan make_plan(const Problem& problem, Terms terms = Terms::allowed);

// Backward: returns true if Q and dO are kept packed in a second, transposed layout (steps are rows). fp32 operands are
// packed again for each key block instead, which is cheap.
inline bool keeps_transposed(const Plan& plan) { return plan.prepack && plan.element != 4; }

// Packs the operands of a call. After packing a value that split floats cannot represent, fits() returns false, and the
// caller repeats the call without split floats.
class Packer {
 public:
  explicit Packer(const Isa& isa) : isa_(isa) {}
  // Returns true if a value is not finite. With split floats it always returns false; for a value that they cannot
  // represent it sets fits() to false.
  bool operator()(bool (*pack)(const Pack&), const Pack& rows) {
    const bool odd = pack(rows);
    if (!odd || isa_.terms == 1) return odd;
    fits_.store(false, std::memory_order_relaxed);
    return false;
  }
  bool fits() const { return fits_.load(std::memory_order_relaxed); }

 private:
  const Isa& isa_;
  std::atomic<bool> fits_ = true;
};

inline std::int64_t row_blocks_of(const Problem& problem, const Plan& plan, std::int64_t seqlen_q) {
  if (seqlen_q >= plan.block_rows) return problem.group * ceil_div(seqlen_q, plan.block_rows);
  return ceil_div(problem.group * seqlen_q, plan.block_rows);
}

// Returns a row block. Heads with at least block_rows rows are divided separately, so that a block's rows are adjacent
// in memory. Shorter heads share blocks.
inline RowBlock row_block(const Problem& problem, const Plan& plan, std::int64_t seqlen_q, std::int64_t index) {
  const std::int64_t rows = plan.block_rows;
  if (seqlen_q >= rows) {
    const std::int64_t per_head = ceil_div(seqlen_q, rows);
    const std::int64_t first = index % per_head * rows;
    return {index / per_head * seqlen_q + first, static_cast<int>(std::min(rows, seqlen_q - first))};
  }
  const std::int64_t first = index * rows;
  return {first, static_cast<int>(std::min(rows, problem.group * seqlen_q - first))};
}

// One unit and its sequence.
struct Unit {
  std::int64_t b, h;  // index of the sequence, index of the KV head
  Extent extent;
  std::int64_t head_of(const Problem& problem, std::int64_t row) const {
    return h * problem.group + row / extent.seqlen_q;
  }
};

inline Unit unit_at(const Problem& problem, std::int64_t index) {
  const std::int64_t b = index / problem.heads_kv;
  return {b, index % problem.heads_kv, problem.extent(b)};
}

CpuScoreOptions score_options(const Problem& problem, const Unit& unit);

// Converts a running maximum of the forward step to a logit, for LSE. The step computes probabilities as 2^(score *
// factor - m) with m = rounded(maximum * factor). With fused multiply-add the rounding error of m changes all
// probabilities of the row alike. LSE would have the same error, so this class corrects the logit.
class LogitOfMax {
 public:
  LogitOfMax(const Isa& isa, const CpuScoreOptions& options)
      : unit_(options.unit), factor_(options.exponent_factor()), may_be_near_(isa.fused && options.may_be_near()) {}

  double operator()(float max) const {
    const double logit = static_cast<double>(max) * unit_;
    const float m = max * factor_;
    if (!may_be_near_ || !(std::abs(m) < kNearExponent)) return logit;
    return logit + (m - static_cast<double>(max) * factor_) * 0.693147180559945309417;
  }

 private:
  float unit_, factor_;
  bool may_be_near_;
};

// Fills the lanes of one panel for rows [first, first + count) of a unit, and sets their bounds lo_min, hi_max, lo_max
// and hi_min. Requires count <= n.
void fill_lanes(const Problem& problem, const Unit& unit, std::int64_t first, int count, int n, Lanes& lanes);

// Sets rows [0, count) to pointers to consecutive query rows of a unit in a tensor with query heads, and
// [count, padded) to null.
void query_rows(const Problem& problem, const Unit& unit, const ConstView& view, std::int64_t first, int count,
                int padded, const void** rows);

// Sets rows [0, count) to pointers to consecutive keys of a unit in a tensor with KV heads, and [count, padded) to
// null.
void key_rows(const Problem& problem, const Unit& unit, const ConstView& view, std::int64_t first, int count,
              int padded, const void** rows);

// Returns the prefetch state for a unit of the forward, or nothing. Prefetches cover the unit's output and the operands
// that its thread packs next. They are issued during computation, because a core gets only a few bytes per clock from
// uncached memory. Returns nothing unless steps are software-pipelined, each unit is a single row block without
// grouped heads, Q and K have the same length, and all tensors have the same head dimension and contiguous rows.
std::optional<Prefetch> plan_prefetch(const Problem& problem, const Plan& plan, std::int64_t unit_index);

// forward() and backward() return true if the plan's panels can represent all values. Otherwise the caller must discard
// the output.
std::size_t forward_workspace(const Problem& problem, const Plan& plan);
bool forward(const Problem& problem, const Plan& plan, void* workspace);

std::size_t backward_workspace(const Problem& problem, const Plan& plan);
bool backward(const Problem& problem, const Plan& plan, void* workspace);

// In a padded batch, writes zeros (-inf for LSE) to output rows and keys past their sequence's length. In backward,
// also writes zeros to dK and dV of the keys that first_keys skips.
void clear_padding(const Problem& problem);

}  // namespace strobe::cpu
