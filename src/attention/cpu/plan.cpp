// Block sizes, lane descriptions and prefetches of flash2 on the CPU.
#include "attention/cpu/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/philox.h"

namespace strobe::cpu {

namespace {

constexpr std::int64_t kGroupBytes = 40 << 20;  // budget for packed operands and sums of the units in flight
constexpr std::int64_t kUnitBytes = 24 << 20;   // a unit that needs more is packed again for each block
constexpr std::int64_t kCoreBytes = 2 << 20;    // a unit that needs at most this stays in a core's cache
constexpr std::int64_t kManyRows = 576;  // rows per row block that packs K and V again: enough to hide the packing cost
constexpr std::int64_t kTileElements = 6144;  // elements per score tile: 24 KB
constexpr std::int64_t kFlowingKeys = 512;    // keys per block with software pipelining (docs/kernels-cpu.md)
constexpr std::int64_t kFlowingKeysInParts = 384;
constexpr std::int64_t kMostKeys = 512;    // keys per block in backward
constexpr std::int64_t kEnoughTasks = 16;  // blocks to share among threads, on small and large machines

// batch_invariant: the ranges of keys whose sums are combined are fixed. No output matmul of fp32 may be split in
// pieces, since the place of the cut would depend on the number of keys.
constexpr std::int64_t kInvariantKeys = 256;        // most keys per block
constexpr std::int64_t kInvariantSplitKeys = 2048;  // keys per split

constexpr int kScorePiece = 128;  // steps per partial sum of scores: head dimensions up to 192 are not split
constexpr std::int64_t kSmallProduct = 1'200'000;  // rows * keys * head dimension

bool is_invariant(const Problem& problem) { return problem.batch_invariant && problem.pass == Pass::forward; }

// Returns the longest sequence lengths: max_q and max_k, or less if lengths are given.
Extent longest_sequence(const Problem& problem) {
  Extent longest{0, 0, 0, 0};
  if (!problem.lengths_q && !problem.lengths_k) return {0, problem.max_q, 0, problem.max_k};
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    longest.q_length = std::max(longest.q_length, problem.extent(b).q_length);
    longest.k_length = std::max(longest.k_length, problem.extent(b).k_length);
  }
  return longest;
}

// True in backward for short sequences, or few rows: one block holds all keys of a row and softmax is recomputed.
bool whole_rows(const Problem& problem, const Isa& isa, const Extent& longest) {
  const bool few_rows = problem.group * longest.q_length <= 2 * isa.n;
  return problem.pass == Pass::backward && longest.k_length <= (few_rows ? 2304 : 384);
}

int piece_of_scores(const Problem& problem, const Isa& isa, const Extent& longest) {
  if (isa.compute != DType::fp32 || isa.parts > 1) return kLongPiece;
  if (is_invariant(problem)) return kScorePiece;
  const std::int64_t tile = std::min(longest.q_length, kSmallProduct) * std::min(longest.k_length, kSmallProduct);
  return tile * std::max(problem.d, problem.dv) <= kSmallProduct ? isa.small_piece : kScorePiece;
}

// Number of keys per block. Without software pipelining the score tile [keys][n] stays in L1 next to the streamed
// operands. In backward, dK and dV of a block stay in L2. Both passes gain from long blocks. Backward distributes key
// blocks among threads, so it takes shorter blocks if there are few.
int block_keys(const Problem& problem, const Isa& isa, const Extent& longest, std::int64_t units) {
  const std::int64_t flowing = isa.parts > 1 ? kFlowingKeysInParts : kFlowingKeys;
  std::int64_t wanted = kMostKeys;
  if (problem.pass == Pass::forward) wanted = isa.forward_flow ? flowing : kTileElements / isa.n;
  if (is_invariant(problem) && isa.compute == DType::fp32) wanted = std::min(wanted, kInvariantKeys);
  if (whole_rows(problem, isa, longest)) {
    wanted = std::max<std::int64_t>(longest.k_length, isa.step) + isa.step;
  } else if (problem.pass == Pass::backward) {
    while (wanted > 128 && units * ceil_div(problem.max_k, wanted) < kEnoughTasks) wanted /= 2;
  }
  const std::int64_t whole = std::max<std::int64_t>(isa.step, wanted / isa.step * isa.step);
  return static_cast<int>(std::min(whole, round_up(std::max<std::int64_t>(problem.max_k, 1), isa.step)));
}

// Number of N panels per row block: few enough for many cores, enough to amortize loading a key block.
int panels_per_block(const Problem& problem, const Isa& isa, std::int64_t units) {
  // Each thread in backward holds P and dS of a block as operands, so wider elements mean fewer rows. Software
  // pipelining takes more rows, since each block fills and drains the pipeline. (Measured without a mask.)
  const int forward_rows = isa.forward_flow ? 256 : 192, backward_rows = isa.element == 2 ? 144 : 384 / isa.element;
  const int most_rows = problem.pass == Pass::forward ? forward_rows : backward_rows;
  const std::int64_t wanted = std::clamp(most_rows / isa.n, 1, kMaxPanels);
  const std::int64_t rows = problem.group * std::max<std::int64_t>(problem.max_q, 1);
  const std::int64_t of_unit = ceil_div(rows, isa.n), all = std::max<std::int64_t>(1, units) * of_unit;
  const std::int64_t most = std::min(wanted, of_unit);
  // Forward distributes row blocks, and threads wait for the last ones. Blocks are smaller if panels are narrow (NEON;
  // not measured with wider panels).
  const std::int64_t blocks = (problem.pass == Pass::forward && isa.n < 16 ? 3 : 2) * kEnoughTasks;
  return static_cast<int>(std::clamp<std::int64_t>(all / blocks, std::min<std::int64_t>(2, most), most));
}

// Bytes that a unit keeps while in flight: packed operands, if prepacked, and dQ sums.
std::int64_t unit_bytes(const Problem& problem, const Plan& plan) {
  if (problem.pass == Pass::forward) {
    const std::int64_t keys = plan.key_blocks * plan.block_keys;
    return plan.prepack ? keys * (plan.d_steps + plan.dv_rows) * plan.element : 0;
  }
  const std::int64_t rows = plan.row_blocks * plan.block_rows;
  const std::int64_t transposed = keeps_transposed(plan) ? plan.d_cols + plan.dv_cols : 0;
  const std::int64_t packed = plan.prepack ? (plan.d_steps + plan.dv_steps + transposed) * plan.element : 0;
  return rows * (packed + plan.d_rows * 4);
}

void set_panels(const Problem& problem, int panels, Plan& plan) {
  plan.panels = panels;
  plan.block_rows = panels * plan.isa->n;
  plan.row_blocks = row_blocks_of(problem, plan, problem.max_q);
}

// Operands are packed once and kept, unless a unit would need too much memory. Backward then packs Q and dO again for
// each key block. Forward packs K and V again for each row block, with longer row blocks, if enough of those remain to
// distribute. A single row block does not need to keep K and V.
void set_prepack(const Problem& problem, Plan& plan) {
  plan.prepack = true;
  const bool too_much = unit_bytes(problem, plan) > kUnitBytes;
  if (problem.pass == Pass::backward) {
    plan.prepack = !too_much;
    return;
  }
  const std::int64_t long_blocks = problem.group * problem.max_q / kManyRows;
  if (too_much && plan.units * long_blocks >= 2 * kEnoughTasks) {
    set_panels(problem, static_cast<int>(kManyRows / plan.isa->n), plan);
    plan.prepack = false;
  } else {
    plan.prepack = plan.row_blocks > 1;
  }
}

// Sets row and head of each lane; lanes past the last row repeat it.
void number_rows(const Problem& problem, const Unit& unit, std::int64_t first, int n, Lanes& lanes) {
  std::int64_t head = unit.head_of(problem, first), i = first % unit.extent.q_length;
  for (int lane = 0; lane < n; ++lane) {
    lanes.row[lane] = static_cast<std::int32_t>(i);
    lanes.head[lane] = static_cast<std::int32_t>(head);
    if (lane + 1 < lanes.count && ++i == unit.extent.q_length) {
      ++head;
      i = 0;
    }
  }
}

// Forward without mask and options: every lane sees every key. (A per-lane loop is measurable for short sequences.)
void see_all_keys(const Unit& unit, int n, Lanes& lanes) {
  const auto keys = static_cast<std::int32_t>(unit.extent.k_length);
  std::fill_n(lanes.lo, n, 0);
  std::fill_n(lanes.hi, n, keys);
  lanes.lo_min = keys > 0 ? 0 : std::numeric_limits<std::int32_t>::max();
  lanes.lo_max = 0;
  lanes.hi_min = lanes.hi_max = keys;
}

// True if split floats suit the problem. P and dS are multiplied with Isa::boost and the scale divides by it at the
// end, so the scale must be far from the limits of a float. If tiles of 32 x 32 would be half empty, split floats are
// slower and are used only by name.
bool suits_parts(const Problem& problem) {
  const float scale = std::abs(problem.scale);
  const bool fast = problem.max_k >= 32 && problem.d + problem.dv >= 32;
  return (fast || !problem.cpu_isa.empty()) && (scale == 0 || (scale > 0x1p-60f && scale < 0x1p60f));
}

// Few rows and many keys (decode): split-KV, several ranges of keys per row block, each a task.
void set_splits(const Problem& problem, Plan& plan) {
  const std::int64_t tasks = plan.units * plan.row_blocks;
  plan.splits = 1;
  plan.split_tasks = problem.pass == Pass::forward && tasks > 0 && tasks < 32;
  if (is_invariant(problem)) {
    plan.split_blocks = std::max<std::int64_t>(1, kInvariantSplitKeys / plan.block_keys);
  } else {
    if (plan.split_tasks) {
      const std::int64_t least_blocks = std::max(1, 1024 / plan.block_keys);
      plan.splits = std::clamp<std::int64_t>(plan.key_blocks / least_blocks, 1, ceil_div(64, tasks));
    }
    plan.split_blocks = std::max<std::int64_t>(1, ceil_div(plan.key_blocks, plan.splits));
  }
  plan.splits = std::max<std::int64_t>(1, ceil_div(plan.key_blocks, plan.split_blocks));
  if (plan.splits == 1) plan.split_tasks = false;
}

}  // namespace

// With batch_invariant no decision that affects a row's bits may depend on other rows, the batch or the number of keys.
// Split floats are left out: one value that they cannot represent repeats the whole call without them.
Plan make_plan(const Problem& problem, Parts parts) {
  if (is_invariant(problem)) parts = Parts::refused;
  const Isa& isa = choose_isa(problem.dtype, problem.cpu_isa.c_str(), suits_parts(problem) ? parts : Parts::refused);
  Plan plan{};
  plan.isa = &isa;
  plan.element = isa.element;
  plan.d_steps = static_cast<int>(round_up(problem.d, isa.k));
  plan.dv_steps = static_cast<int>(round_up(problem.dv, isa.k));
  plan.d_rows = static_cast<int>(round_up(problem.d, isa.m));
  plan.dv_rows = static_cast<int>(round_up(problem.dv, isa.m));
  plan.d_cols = static_cast<int>(round_up(problem.d, isa.cols));
  plan.dv_cols = static_cast<int>(round_up(problem.dv, isa.cols));
  plan.units = problem.batch * problem.heads_kv;
  const Extent longest = longest_sequence(problem);
  plan.block_keys = block_keys(problem, isa, longest, plan.units);
  plan.key_blocks = ceil_div(problem.max_k, plan.block_keys);
  set_panels(problem, panels_per_block(problem, isa, plan.units), plan);
  plan.whole_rows = whole_rows(problem, isa, longest);
  plan.piece = piece_of_scores(problem, isa, longest);
  set_prepack(problem, plan);
  const std::int64_t bytes = unit_bytes(problem, plan);
  plan.group_units =
      std::clamp<std::int64_t>(bytes ? kGroupBytes / bytes : plan.units, 1, std::max<std::int64_t>(1, plan.units));
  set_splits(problem, plan);
  const std::int64_t most = plan.group_units * std::max(plan.key_blocks, plan.row_blocks * plan.splits);
  plan.threads = static_cast<int>(std::clamp<std::int64_t>(most, 1, problem.threads));
  // False if several units may add to the same gradients of a bias or of sinks. (Not wants_dbias: a workspace query
  // counts what a call may leave out.)
  const bool units_apart = problem.pass == Pass::forward || (!problem.has_bias && !problem.sinks);
  plan.unit_tasks = plan.prepack && !plan.split_tasks && units_apart && plan.units >= problem.threads &&
                    bytes <= std::min(kCoreBytes, kGroupBytes / problem.threads);
  if (plan.unit_tasks) plan.group_units = plan.threads = problem.threads;
  return plan;
}

ScoreOptions score_options(const Problem& problem, const Unit& unit) {
  ScoreOptions options{};
  options.scale = problem.scale;
  options.softcap = problem.softcap;
  options.alibi = problem.alibi_slopes != nullptr;
  options.bias = problem.has_bias;
  options.bias_dtype = problem.bias.dtype;
  options.dropout = problem.dropout.p > 0;
  options.dropout_threshold = dropout_threshold(problem.dropout.p);
  options.dropout_scale = static_cast<float>(1.0 / (1.0 - static_cast<double>(problem.dropout.p)));
  options.seed = problem.dropout.seed;
  options.batch = static_cast<std::int32_t>(unit.b);
  options.k_skipped = static_cast<std::int32_t>(unit.extent.k_skipped);
  options.mask = problem.has_mask;
  options.mask_stride = problem.mask.stride[3];
  const bool only_scale = problem.scale > 0 && options.softcap == 0 && !options.alibi && !options.bias;
  options.plain = only_scale && !options.mask;
  const bool capped_last = options.softcap != 0 && !options.alibi && !options.bias;
  options.unit = only_scale ? options.scale : capped_last ? options.softcap : 1.0f;
  return options;
}

void fill_lanes(const Problem& problem, const Unit& unit, std::int64_t first, int count, int n, Lanes& lanes) {
  lanes.count = count;
  number_rows(problem, unit, first, n, lanes);
  const bool options = problem.has_bias || problem.has_mask || problem.alibi_slopes || problem.dropout.p > 0;
  if (!problem.masked() && !problem.lse_in && !options) return see_all_keys(unit, n, lanes);
  lanes.lo_min = std::numeric_limits<std::int32_t>::max();
  lanes.hi_max = 0;
  lanes.lo_max = 0;
  lanes.hi_min = std::numeric_limits<std::int32_t>::max();
  const std::int64_t offset = problem.offset(unit.extent);
  for (int lane = 0; lane < n; ++lane) {
    const std::int64_t head = lanes.head[lane], i = lanes.row[lane];
    Interval seen = problem.allowed(unit.extent, i);
    // A bias may mask a whole row (LSE -inf). Such a row, and its inputs, must not affect any gradient.
    if (problem.lse_in && problem.lse_in[problem.lse_index(unit.b, head, unit.extent.q_begin, i)] ==
                              -std::numeric_limits<float>::infinity()) {
      seen = {0, 0};
    }
    lanes.lo[lane] = static_cast<std::int32_t>(std::min(seen.lo, unit.extent.k_length));
    lanes.hi[lane] = static_cast<std::int32_t>(std::min(seen.hi, unit.extent.k_length));
    lanes.lo_max = std::max(lanes.lo_max, lanes.lo[lane]);
    lanes.hi_min = std::min(lanes.hi_min, lanes.hi[lane]);
    if (lanes.lo[lane] < lanes.hi[lane]) {
      lanes.lo_min = std::min(lanes.lo_min, lanes.lo[lane]);
      lanes.hi_max = std::max(lanes.hi_max, lanes.hi[lane]);
    }
    const bool reads_d_lse = lane < count && lanes.lo[lane] < lanes.hi[lane];
    lanes.d_lse[lane] = reads_d_lse ? problem.d_lse_of(unit.b, head, unit.extent.q_begin, i) : 0.0f;
    if (!options) continue;
    lanes.diagonal[lane] = static_cast<std::int32_t>(i + offset);
    lanes.slope[lane] = problem.alibi_slopes ? problem.slope(unit.b, head) : 0.0f;
    const auto at = [&](const auto& view) {
      return unit.b * view.stride[0] + head * view.stride[1] + i * view.stride[2] + unit.extent.k_skipped;
    };
    if (problem.has_bias) {
      lanes.bias[lane] = static_cast<const char*>(problem.bias.data) +
                         at(problem.bias) * static_cast<std::int64_t>(size_of(problem.bias.dtype));
    }
    if (problem.has_mask) lanes.mask[lane] = problem.mask_row(unit.extent, unit.b, head, i);
    lanes.dbias[lane] = problem.dbias.data ? static_cast<float*>(problem.dbias.data) + at(problem.dbias) : nullptr;
  }
  if (!options) std::fill(lanes.dbias, lanes.dbias + n, nullptr);
}

void query_rows(const Problem& problem, const Unit& unit, const ConstView& view, std::int64_t first, int count,
                int padded, const void** rows) {
  const std::int64_t length = unit.extent.q_length;
  for (int r = 0; r < count;) {
    const Rows of_head = problem.rows(view, unit.b, unit.head_of(problem, first + r), unit.extent.q_begin);
    for (std::int64_t i = (first + r) % length; i < length && r < count; ++i, ++r) rows[r] = of_head[i];
  }
  std::fill(rows + count, rows + padded, nullptr);
}

void key_rows(const Problem& problem, const Unit& unit, const ConstView& view, std::int64_t first, int count,
              int padded, const void** rows) {
  const Rows of_head = problem.rows(view, unit.b, unit.h, unit.extent.k_begin);
  for (int r = 0; r < count; ++r) rows[r] = of_head[first + r];
  std::fill(rows + count, rows + padded, nullptr);
}

namespace {

constexpr std::int64_t kLine = 64;  // bytes

bool all_alike(const Problem& problem, const Extent& extent) {
  const auto in_a_row = [&](const auto& view) { return view.stride[2] == problem.d; };
  return problem.group == 1 && extent.k_length == extent.q_length && problem.dv == problem.d && in_a_row(problem.q) &&
         in_a_row(problem.k) && in_a_row(problem.v) && in_a_row(problem.o);
}

}  // namespace

std::optional<Soon> soon_wanted(const Problem& problem, const Plan& plan, std::int64_t unit_index) {
  const Unit unit = unit_at(problem, unit_index);
  const std::int64_t rows = unit.extent.q_length;
  if (!plan.isa->forward_flow || plan.row_blocks > 1 || rows == 0 || !all_alike(problem, unit.extent)) return {};
  const auto begin = [&](const auto& view, const Unit& of, std::int64_t row) {
    return problem.rows(view, of.b, of.h, row).data;
  };
  const char* const o = begin(problem.o, unit, unit.extent.q_begin);
  const std::int64_t lines = ceil_div(rows * problem.d * static_cast<std::int64_t>(size_of(problem.dtype)), kLine);
  const std::int64_t times = std::max<std::int64_t>(rows * rows / kScoresOfFetch, 1);
  Soon soon{{o, o, o, o}, 0, ceil_div(lines, times) * kLine, (lines - 1) * kLine};
  if (unit_index + plan.threads < plan.units) {
    const Unit next = unit_at(problem, unit_index + plan.threads);
    soon.tensors[1] = begin(problem.q, next, next.extent.q_begin);
    soon.tensors[2] = begin(problem.k, next, next.extent.k_begin);
    soon.tensors[3] = begin(problem.v, next, next.extent.k_begin);
  }
  return soon;
}

}  // namespace strobe::cpu
