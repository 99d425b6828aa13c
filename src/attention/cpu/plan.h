// Block sizes of flash2. They depend only on the shape and the instruction set, never on the number of threads, so
// results are bitwise identical for any number of threads. Shared by forward.cpp and backward.cpp.
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

// Workspace allocator: the same calls compute the size (base null) or the pointers.
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

// Consecutive query rows of one unit, numbered g * q_length + i over the grouped heads g and rows i.
struct RowBlock {
  std::int64_t first;
  int count;
};

// Panels of a row block: wide ones, then one or two narrow tail panels if those need fewer lanes for the remaining rows
// (or for those plus the last wide panel's rows). The number of panels is the same as with wide panels only.
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

inline constexpr int kMaxPanels = 32;  // per row block in backward, with any instruction set

// Block sizes of a call. A unit is one KV head of one sequence with all query heads that share it.
struct Plan {
  const Isa* isa;
  int element;                // bytes of a packed element
  int d_steps, dv_steps;      // contraction over a head dimension, padded to k
  int d_rows, dv_rows;        // a head dimension as rows of M panels, padded to m
  int d_cols, dv_cols;        // a head dimension as columns of N panels, padded to cols
  int block_keys;             // keys per block, a multiple of step
  int panels;                 // N panels per row block
  int block_rows;             // panels * n
  std::int64_t units;         // batch * heads_kv
  std::int64_t key_blocks;    // in the longest sequence
  std::int64_t row_blocks;    // in the unit with the most rows
  std::int64_t group_units;   // units in flight at a time, to bound the workspace
  bool unit_tasks;            // each thread packs and computes whole units, whose packed operands stay in its cache
  std::int64_t splits;        // forward: ranges of keys per row block (split-KV), combined at the end
  bool split_tasks;           // each split is a task; else one task computes and combines those of a row block
  std::int64_t split_blocks;  // forward: key blocks per split
  int piece;                  // steps per fp32 partial sum of scores or dP
  bool whole_rows;            // backward: a block holds all keys of a sequence
  int threads;                // as requested, but at most the number of concurrent tasks; each thread has its scratch
  bool prepack;               // K and V (forward) or Q and dO (backward) of a unit are packed once and kept
};

// Plans with the best instruction set for the problem, or the best one without split floats.
Plan make_plan(const Problem& problem, Parts parts = Parts::allowed);

// Backward: true if rows are kept packed in both layouts. fp32 is cheap to pack again.
inline bool keeps_transposed(const Plan& plan) { return plan.prepack && plan.element != 4; }

// Packs the operands of a call. fits() is false once split floats cannot represent a value: the caller then repeats the
// call without split floats.
class Packer {
 public:
  explicit Packer(const Isa& isa) : isa_(isa) {}
  // Returns true if a value is not finite. Always false with split floats, where the call is repeated instead.
  bool operator()(bool (*pack)(const Pack&), const Pack& rows) {
    const bool odd = pack(rows);
    if (!odd || isa_.parts == 1) return odd;
    fits_.store(false, std::memory_order_relaxed);
    return false;
  }
  bool fits() const { return fits_.load(std::memory_order_relaxed); }

 private:
  const Isa& isa_;
  std::atomic<bool> fits_ = true;
};

inline std::int64_t row_blocks_of(const Problem& problem, const Plan& plan, std::int64_t q_length) {
  if (q_length >= plan.block_rows) return problem.group * ceil_div(q_length, plan.block_rows);
  return ceil_div(problem.group * q_length, plan.block_rows);
}

// Returns a row block. Long heads are split separately, so a block's rows are adjacent in memory; short heads share
// blocks.
inline RowBlock row_block(const Problem& problem, const Plan& plan, std::int64_t q_length, std::int64_t index) {
  const std::int64_t rows = plan.block_rows;
  if (q_length >= rows) {
    const std::int64_t per_head = ceil_div(q_length, rows);
    const std::int64_t first = index % per_head * rows;
    return {index / per_head * q_length + first, static_cast<int>(std::min(rows, q_length - first))};
  }
  const std::int64_t first = index * rows;
  return {first, static_cast<int>(std::min(rows, problem.group * q_length - first))};
}

// One unit and its sequence.
struct Unit {
  std::int64_t b, h;  // sequence, KV head
  Extent extent;
  std::int64_t head_of(const Problem& problem, std::int64_t row) const {
    return h * problem.group + row / extent.q_length;
  }
};

inline Unit unit_at(const Problem& problem, std::int64_t index) {
  const std::int64_t b = index / problem.heads_kv;
  return {b, index % problem.heads_kv, problem.extent(b)};
}

ScoreOptions score_options(const Problem& problem, const Unit& unit);

// Returns the logit of a running maximum of the forward step. Its probabilities are 2^(score * unit - m) with m =
// maximum * unit, rounded. With fused multiply-add only m is rounded, so this adds the rounding error of m; LSE would
// be off by it otherwise.
class LogitOfMax {
 public:
  LogitOfMax(const Isa& isa, const ScoreOptions& options)
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

// Fills the lanes of one panel: rows [first, first + count) of a unit, count <= n, with the hull bounds.
void fill_lanes(const Problem& problem, const Unit& unit, std::int64_t first, int count, int n, Lanes& lanes);

// Pointers to consecutive rows of a unit in a tensor with query heads; null from `count` up to `padded`.
void query_rows(const Problem& problem, const Unit& unit, const ConstView& view, std::int64_t first, int count,
                int padded, const void** rows);

// Pointers to consecutive keys of a unit, likewise.
void key_rows(const Problem& problem, const Unit& unit, const ConstView& view, std::int64_t first, int count,
              int padded, const void** rows);

// Returns the prefetches of a forward while it computes, since a core gets only a few bytes per clock from uncached
// memory. They cover the unit's output and the operands that its thread packs next. Empty unless steps are
// software-pipelined, each unit is a single row block, and all tensors have one shape with contiguous rows.
std::optional<Soon> soon_wanted(const Problem& problem, const Plan& plan, std::int64_t unit_index);

// Both passes return true if the plan's panels could represent all values. If not, the caller discards their output.
std::size_t forward_workspace(const Problem& problem, const Plan& plan);
bool forward(const Problem& problem, const Plan& plan, void* workspace);

std::size_t backward_workspace(const Problem& problem, const Plan& plan);
bool backward(const Problem& problem, const Plan& plan, void* workspace);

// Writes zeros (and LSE -inf) to rows and keys past their sequence's length in a padded batch, and zeros to keys before
// its first one.
void clear_padding(const Problem& problem);

}  // namespace strobe::cpu
