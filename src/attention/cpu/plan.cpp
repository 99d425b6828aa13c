// Implements plan.h except for the passes: block sizes, lane descriptions and prefetches of flash2 on the CPU.
#include "attention/cpu/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/philox.h"

namespace strobe::cpu {

namespace {

constexpr std::int64_t kGroupBytes = 40 << 20;  // budget for packed operands and dQ sums of concurrent units
constexpr std::int64_t kUnitBytes = 24 << 20;   // the operands of a unit that needs more are not kept packed
constexpr std::int64_t kCoreBytes = 2 << 20;    // a unit that needs at most this many bytes stays in a core's cache
constexpr std::int64_t kManyRows = 576;       // rows per row block if K and V are packed per row block; hides that cost
constexpr std::int64_t kTileElements = 6144;  // elements per score tile: 24 KB
constexpr std::int64_t kPipelinedKeys = 512;  // keys per block with software pipelining (docs/kernels-cpu.md)
constexpr std::int64_t kPipelinedKeysSplit = 384;  // the same with split floats
constexpr std::int64_t kMostKeys = 512;            // keys per block in backward
constexpr std::int64_t kEnoughTasks = 16;  // tasks that a call should have; independent of the number of threads

// With batch_invariant, partial sums cover fixed ranges of keys. A block has so few keys that no fp32 output matmul is
// split into several sums (panel_matmuls() in isa/scores.h). The split point would depend on the number of keys.
constexpr std::int64_t kInvariantKeys = 256;        // maximum keys per block
constexpr std::int64_t kInvariantSplitKeys = 2048;  // keys per split

constexpr int kScoreSumChunk = 128;  // steps per partial sum of scores; sums over up to 192 steps are not split
constexpr std::int64_t kSmallMatmul =
    1'200'000;  // most rows * keys * head dimension of a small matmul (small_sum_chunk)

bool is_invariant(const Problem& problem) { return problem.batch_invariant && problem.pass == Pass::forward; }

// Returns the longest seqlen_q and seqlen_k: max_seqlen_q and max_seqlen_k, or the maxima of the lengths if these are
// given.
Extent longest_sequence(const Problem& problem) {
  Extent longest{0, 0, 0, 0};
  if (!problem.lengths_q && !problem.lengths_k) return {0, problem.max_seqlen_q, 0, problem.max_seqlen_k};
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    longest.seqlen_q = std::max(longest.seqlen_q, problem.extent(b).seqlen_q);
    longest.seqlen_k = std::max(longest.seqlen_k, problem.extent(b).seqlen_k);
  }
  return longest;
}

// Returns true in backward if one block shall hold all keys of a sequence, so that softmax can be recomputed. This pays
// off for short sequences, and for longer ones with few rows.
bool whole_rows(const Problem& problem, const Isa& isa, const Extent& longest) {
  const bool few_rows = problem.group * longest.seqlen_q <= 2 * isa.n;
  return problem.pass == Pass::backward && longest.seqlen_k <= (few_rows ? 2304 : 384);
}

int sum_chunk_of_scores(const Problem& problem, const Isa& isa, const Extent& longest) {
  if (isa.compute != DType::fp32 || isa.terms > 1) return kLongSumChunk;
  if (is_invariant(problem)) return kScoreSumChunk;
  const std::int64_t tile = std::min(longest.seqlen_q, kSmallMatmul) * std::min(longest.seqlen_k, kSmallMatmul);
  return tile * std::max(problem.d, problem.dv) <= kSmallMatmul ? isa.small_sum_chunk : kScoreSumChunk;
}

// Returns the number of keys per block. Both passes gain from long blocks, within limits. In a forward without software
// pipelining, the score tile [keys][n] must stay in L1 next to the streamed operands. In backward, dK and dV of a block
// must stay in L2. Backward distributes key blocks among threads, so it takes shorter blocks if there would otherwise
// be few blocks.
int block_keys(const Problem& problem, const Isa& isa, const Extent& longest, std::int64_t units) {
  const std::int64_t pipelined = isa.terms > 1 ? kPipelinedKeysSplit : kPipelinedKeys;
  std::int64_t wanted = kMostKeys;
  if (problem.pass == Pass::forward) wanted = isa.forward_pipelined ? pipelined : kTileElements / isa.n;
  if (is_invariant(problem) && isa.compute == DType::fp32) wanted = std::min(wanted, kInvariantKeys);
  if (whole_rows(problem, isa, longest)) {
    wanted = std::max<std::int64_t>(longest.seqlen_k, isa.step) + isa.step;
  } else if (problem.pass == Pass::backward) {
    while (wanted > 128 && units * ceil_div(problem.max_seqlen_k, wanted) < kEnoughTasks) wanted /= 2;
  }
  const std::int64_t whole = std::max<std::int64_t>(isa.step, wanted / isa.step * isa.step);
  return static_cast<int>(std::min(whole, round_up(std::max<std::int64_t>(problem.max_seqlen_k, 1), isa.step)));
}

// Returns the number of N panels per row block: few enough to give many cores a row block, but enough to amortize
// loading a key block.
int panels_per_block(const Problem& problem, const Isa& isa, std::int64_t units) {
  // In backward each thread holds P and dS of a block as operands, so wider elements allow fewer rows. Software
  // pipelining takes more rows, since each row block fills and drains the pipeline. (Measured without a mask.)
  const int forward_rows = isa.forward_pipelined ? 256 : 192,
            backward_rows = isa.element == 2 ? 144 : 384 / isa.element;
  const int most_rows = problem.pass == Pass::forward ? forward_rows : backward_rows;
  const std::int64_t wanted = std::clamp(most_rows / isa.n, 1, kMaxPanels);
  const std::int64_t rows = problem.group * std::max<std::int64_t>(problem.max_seqlen_q, 1);
  const std::int64_t of_unit = ceil_div(rows, isa.n), all = std::max<std::int64_t>(1, units) * of_unit;
  const std::int64_t most = std::min(wanted, of_unit);
  // Forward distributes row blocks among threads and ends with the last one. Blocks are therefore smaller if panels are
  // narrow, as on NEON. (Not measured with wider panels.)
  const std::int64_t blocks = (problem.pass == Pass::forward && isa.n < 16 ? 3 : 2) * kEnoughTasks;
  return static_cast<int>(std::clamp<std::int64_t>(all / blocks, std::min<std::int64_t>(2, most), most));
}

// Returns the bytes that a unit occupies while it is computed: packed operands, if prepacked, and dQ sums.
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
  plan.row_blocks = row_blocks_of(problem, plan, problem.max_seqlen_q);
}

// Decides if operands are packed once per unit and kept. If a unit would need too much memory, backward packs Q and dO
// again for each key block. Forward then packs K and V again for each row block, with longer row blocks, provided that
// enough of them remain to distribute. With a single row block, forward has nothing to reuse and does not keep K and V.
void set_prepack(const Problem& problem, Plan& plan) {
  plan.prepack = true;
  const bool too_much = unit_bytes(problem, plan) > kUnitBytes;
  if (problem.pass == Pass::backward) {
    plan.prepack = !too_much;
    return;
  }
  const std::int64_t long_blocks = problem.group * problem.max_seqlen_q / kManyRows;
  if (too_much && plan.units * long_blocks >= 2 * kEnoughTasks) {
    set_panels(problem, static_cast<int>(kManyRows / plan.isa->n), plan);
    plan.prepack = false;
  } else {
    plan.prepack = plan.row_blocks > 1;
  }
}

// Sets the row and the head of each lane. Lanes past the last row repeat that row.
void number_rows(const Problem& problem, const Unit& unit, std::int64_t first, int n, Lanes& lanes) {
  std::int64_t head = unit.head_of(problem, first), i = first % unit.extent.seqlen_q;
  for (int lane = 0; lane < n; ++lane) {
    lanes.row[lane] = static_cast<std::int32_t>(i);
    lanes.head[lane] = static_cast<std::int32_t>(head);
    if (lane + 1 < lanes.count && ++i == unit.extent.seqlen_q) {
      ++head;
      i = 0;
    }
  }
}

// Fills the key ranges for a forward without masks and options, in which every lane sees every key. (With short
// sequences, the time of a loop over lanes would be measurable.)
void see_all_keys(const Unit& unit, int n, Lanes& lanes) {
  const auto keys = static_cast<std::int32_t>(unit.extent.seqlen_k);
  std::fill_n(lanes.lo, n, 0);
  std::fill_n(lanes.hi, n, keys);
  lanes.lo_min = keys > 0 ? 0 : std::numeric_limits<std::int32_t>::max();
  lanes.lo_max = 0;
  lanes.hi_min = lanes.hi_max = keys;
}

// Returns true if split floats suit the problem. P and dS are multiplied by Isa::boost, which is combined with the
// scale at the end. The scale must therefore be far from the limits of a float. If tiles of 32 x 32 would be half
// empty, split floats are slower, and they are used only if STROBE_CPU_ISA is set.
bool suits_split_floats(const Problem& problem) {
  const float scale = std::abs(problem.scale);
  const bool fast = problem.max_seqlen_k >= 32 && problem.d + problem.dv >= 32;
  return (fast || !problem.cpu_isa.empty()) && (scale == 0 || (scale > 0x1p-60f && scale < 0x1p60f));
}

// Chooses split-KV, which divides the keys of a row block into ranges. With few rows and many keys (decode) each range
// is a task. With batch_invariant the ranges have a fixed length.
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
// Split floats are not used: one value that they cannot represent would change the kernel of the whole call.
Plan make_plan(const Problem& problem, Terms terms) {
  if (is_invariant(problem)) terms = Terms::refused;
  const Isa& isa =
      choose_isa(problem.dtype, problem.cpu_isa.c_str(), suits_split_floats(problem) ? terms : Terms::refused);
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
  plan.key_blocks = ceil_div(problem.max_seqlen_k, plan.block_keys);
  set_panels(problem, panels_per_block(problem, isa, plan.units), plan);
  plan.whole_rows = whole_rows(problem, isa, longest);
  plan.sum_chunk = sum_chunk_of_scores(problem, isa, longest);
  set_prepack(problem, plan);
  const std::int64_t bytes = unit_bytes(problem, plan);
  plan.group_units =
      std::clamp<std::int64_t>(bytes ? kGroupBytes / bytes : plan.units, 1, std::max<std::int64_t>(1, plan.units));
  set_splits(problem, plan);
  const std::int64_t most = plan.group_units * std::max(plan.key_blocks, plan.row_blocks * plan.splits);
  plan.threads = static_cast<int>(std::clamp<std::int64_t>(most, 1, problem.threads));
  // False if several units may add to the same elements of dbias or dsinks. It depends on the inputs instead of
  // wants_dbias, because a workspace query assumes gradients that the call itself may leave out.
  const bool units_apart = problem.pass == Pass::forward || (!problem.has_bias && !problem.sinks);
  plan.unit_tasks = plan.prepack && !plan.split_tasks && units_apart && plan.units >= problem.threads &&
                    bytes <= std::min(kCoreBytes, kGroupBytes / problem.threads);
  if (plan.unit_tasks) plan.group_units = plan.threads = problem.threads;
  return plan;
}

CpuScoreOptions score_options(const Problem& problem, const Unit& unit) {
  CpuScoreOptions options{};
  options.scale = problem.scale;
  options.softcap = problem.softcap;
  options.alibi = problem.alibi_slopes != nullptr;
  options.bias = problem.has_bias;
  options.bias_dtype = problem.bias.dtype;
  options.dropout = problem.dropout.p > 0;
  options.dropout_threshold = dropout_threshold(problem.dropout.p);
  options.dropout_scale = static_cast<float>(dropout_scale(options.dropout_threshold));
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
    // A bias may mask a whole row, whose LSE is then -inf. Such a row and its inputs must not affect any gradient.
    if (problem.lse_in && problem.lse_in[problem.lse_index(unit.b, head, unit.extent.q_begin, i)] ==
                              -std::numeric_limits<float>::infinity()) {
      seen = {0, 0};
    }
    lanes.lo[lane] = static_cast<std::int32_t>(std::min(seen.lo, unit.extent.seqlen_k));
    lanes.hi[lane] = static_cast<std::int32_t>(std::min(seen.hi, unit.extent.seqlen_k));
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
  const std::int64_t length = unit.extent.seqlen_q;
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

constexpr std::int64_t kLine = 64;  // bytes per cache line

bool all_alike(const Problem& problem, const Extent& extent) {
  const auto in_a_row = [&](const auto& view) { return view.stride[2] == problem.d; };
  return problem.group == 1 && extent.seqlen_k == extent.seqlen_q && problem.dv == problem.d && in_a_row(problem.q) &&
         in_a_row(problem.k) && in_a_row(problem.v) && in_a_row(problem.o);
}

}  // namespace

std::optional<Prefetch> plan_prefetch(const Problem& problem, const Plan& plan, std::int64_t unit_index) {
  const Unit unit = unit_at(problem, unit_index);
  const std::int64_t rows = unit.extent.seqlen_q;
  if (!plan.isa->forward_pipelined || plan.row_blocks > 1 || rows == 0 || !all_alike(problem, unit.extent)) return {};
  const auto begin = [&](const auto& view, const Unit& of, std::int64_t row) {
    return problem.rows(view, of.b, of.h, row).data;
  };
  const char* const o = begin(problem.o, unit, unit.extent.q_begin);
  const std::int64_t lines = ceil_div(rows * problem.d * static_cast<std::int64_t>(size_of(problem.dtype)), kLine);
  const std::int64_t times = std::max<std::int64_t>(rows * rows / kScoresOfFetch, 1);
  Prefetch prefetch{{o, o, o, o}, 0, ceil_div(lines, times) * kLine, (lines - 1) * kLine};
  if (unit_index + plan.threads < plan.units) {
    const Unit next = unit_at(problem, unit_index + plan.threads);
    prefetch.tensors[1] = begin(problem.q, next, next.extent.q_begin);
    prefetch.tensors[2] = begin(problem.k, next, next.extent.k_begin);
    prefetch.tensors[3] = begin(problem.v, next, next.extent.k_begin);
  }
  return prefetch;
}

}  // namespace strobe::cpu
