// Draws the cases of the grid. Most are small, so the float64 reference takes about a minute for all of them.
#include "support/grid.h"

#include <fmt/format.h>

#include <algorithm>

#include "support/random.h"

namespace strobe::test {
namespace {

const std::vector<std::int64_t> kSequences = {0,  1,  2,  3,  5,   7,   8,   11,  12,  13,  16,  17,  31,  33,
                                              47, 64, 65, 96, 100, 127, 128, 129, 191, 200, 257, 300, 384, 513};
const std::vector<std::int64_t> kLongSequences = {777, 1025,
                                                  2049};  // of rows with 1 to 4 keys, or of keys with 1 to 4 rows
// More rows or keys than one block of flash2 holds.
const std::vector<std::int64_t> kManyRows = {65, 72, 96, 100, 127, 129, 200, 257};
const std::vector<std::int64_t> kManyKeys = {385, 391, 400, 449, 512, 513, 577, 640, 700, 1025};
const std::vector<std::int64_t> kHeadDims = {1,  2,  3,  5,  7,  8,   15,  16,  17,  31,  32,  33,  40,  48, 63,
                                             64, 65, 72, 80, 96, 100, 112, 128, 129, 160, 192, 200, 255, 256};

// Returns the multiply-adds of one matmul such as QK^T. The reference performs about nine such matmuls per case.
std::int64_t work(const Case& c) { return c.batch * c.heads_q * c.sq * c.sk * (c.d + c.dv) / 2; }

// Draws the limit for work() of a case, so that large cases are few.
std::int64_t work_limit(Random& random) {
  const double draw = random.uniform();
  return draw < 0.75 ? 1'000'000 : draw < 0.985 ? 6'000'000 : 40'000'000;
}

void draw_heads(Case& c, Random& random) {
  const std::int64_t group = random.pick({1, 1, 1, 2, 2, 3, 4, 8});
  c.heads_kv = group >= 3 ? random.between(1, 2) : random.between(1, 3);
  if (group == 8) c.heads_kv = 1;
  c.heads_q = group * c.heads_kv;
}

// Draws a shape whose work is within the limit. Repeats the draw if it exceeds the limit, because shrinking the shape
// would favour sizes near the limit.
void draw_shape(Case& c, Random& random) {
  const bool several_blocks = random.chance(0.2);
  std::int64_t limit = work_limit(random);
  c.dtype = random.pick({DType::fp32, DType::fp16, DType::bf16});
  c.d = random.pick_from(kHeadDims);
  c.dv = random.chance(0.4) ? c.d : random.pick_from(kHeadDims);
  if (several_blocks) limit = std::max(limit, 2 * kManyRows.front() * kManyKeys.front() * (c.d + c.dv) / 2);
  do {
    c.batch = random.pick({1, 1, 2, 2, 3});
    draw_heads(c, random);
    c.sq = random.pick_from(kSequences);
    c.sk = random.chance(0.3) ? c.sq : random.pick_from(kSequences);
    if (several_blocks) {
      c.sq = random.pick_from(kManyRows);
      c.sk = random.pick_from(kManyKeys);
    } else if (random.chance(0.08)) {  // decode (few rows, many keys), and the reverse
      std::int64_t& longer = random.chance(0.7) ? c.sk : c.sq;
      (&longer == &c.sk ? c.sq : c.sk) = random.between(1, 4);
      longer = random.pick_from(kLongSequences);
    }
  } while (work(c) > limit || ((c.sq == 0 || c.sk == 0) && random.chance(0.8)));  // a few empty cases are enough
}

void draw_lengths(Case& c, Random& random) {
  c.lengths = random.pick({Lengths::none, Lengths::none, Lengths::none, Lengths::keys, Lengths::rows, Lengths::both,
                           Lengths::packed, Lengths::packed});
  c.index_bits = random.pick({32, 64});
  const auto draw = [&](std::int64_t limit) {
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(c.batch));
    for (auto& length : lengths)
      length = random.chance(0.2) ? 0 : random.chance(0.2) ? limit : random.between(0, limit);
    return lengths;
  };
  if (c.lengths == Lengths::packed) {  // more and shorter sequences; Sq and Sk are the longest lengths
    c.batch += random.between(0, 3);
    c.lengths_q = draw(c.sq);
    c.lengths_k = random.chance(0.3) && c.sq == c.sk ? c.lengths_q : draw(c.sk);
    c.sq = *std::max_element(c.lengths_q.begin(), c.lengths_q.end());
    c.sk = *std::max_element(c.lengths_k.begin(), c.lengths_k.end());
    return;
  }
  if (c.lengths == Lengths::rows || c.lengths == Lengths::both) c.lengths_q = draw(c.sq);
  if (c.lengths == Lengths::keys || c.lengths == Lengths::both) c.lengths_k = draw(c.sk);
}

void draw_mask(Case& c, Random& random) {
  c.causal = random.chance(0.45);
  const std::int64_t longest = std::max<std::int64_t>(1, std::max(c.sq, c.sk));
  const auto reach = [&] {
    return random.chance(0.25) ? 0 : random.chance(0.5) ? random.between(0, 9) : random.between(0, longest);
  };
  if (random.chance(0.35)) {
    const auto kind = random.between(0, 2);
    if (kind != 1) c.window.left = reach();
    if (kind != 0) c.window.right = reach();
  }
  c.alibi = random.chance(0.2);
  const bool matters = c.causal || c.alibi || c.window.left >= 0 || c.window.right >= 0;
  const bool may_be_unset = c.lengths == Lengths::none && c.sq == c.sk;
  if (!matters || (may_be_unset && random.chance(0.3))) return;
  c.alignment = random.pick({Alignment::top_left, Alignment::bottom_right});
}

void draw_options(Case& c, Random& random) {
  const double draw = random.uniform();
  if (draw > 0.5) c.scale = draw < 0.6 ? 0.f : draw < 0.7 ? -0.17f : draw < 0.8 ? 1.7f : 0.11f;
  if (random.chance(0.2)) c.softcap = random.pick({0.7f, 5.f, 30.f});
  c.sinks = random.chance(0.2);
  if (random.chance(0.2)) c.dropout = random.pick({0.1f, 0.5f});
  c.bias = random.chance(0.3);
  c.bias_shape = {random.chance(0.5), random.chance(0.5), random.chance(0.6)};
  c.bias_dtype = random.chance(0.5) ? DType::fp32 : c.dtype;
  c.bias_values = random.pick({BiasValues::normal, BiasValues::normal, BiasValues::some_minus_inf,
                               BiasValues::rows_minus_inf, BiasValues::lowest});
  c.layout_bias = random.pick({Layout::bhsd, Layout::bhsd, Layout::padded, Layout::bshd, Layout::expanded_rows});
  c.dbias = random.chance(0.75);
  c.values = random.pick({Values::normal, Values::normal, Values::normal, Values::large, Values::integer});
}

void draw_memory(Case& c, Random& random) {
  const auto input = [&] {
    return random.pick({Layout::bhsd, Layout::bhsd, Layout::bshd, Layout::bshd, Layout::padded, Layout::padded,
                        Layout::expanded_batch, Layout::expanded_heads, Layout::expanded_rows});
  };
  c.layout_q = input();
  c.layout_k = random.chance(0.6) ? c.layout_q : input();
  c.layout_v = random.chance(0.6) ? c.layout_k : input();
  // If all keys are equal, dQ is 0; if all values are equal, dK is 0 too. The rule would compare only rounding noise.
  // Reliability.ExpandedInputs tests such inputs with an absolute limit.
  for (Layout* layout : {&c.layout_k, &c.layout_v}) {
    if (*layout == Layout::expanded_rows) *layout = Layout::expanded_heads;
  }
  c.layout_do = random.pick({Layout::bhsd, Layout::bshd, Layout::padded, Layout::expanded_batch, Layout::expanded_heads,
                             Layout::expanded_rows, Layout::expanded_last, Layout::expanded_all});
  c.layout_out = random.pick({Layout::bhsd, Layout::bshd, Layout::padded});
  c.misalign = random.pick({0, 0, 1, 3, 5});
  c.fused = c.total_q() == c.total_k() && c.d == c.dv && random.chance(0.5);
  c.threads = random.pick({1, 2, 3, 4});
  c.own_workspace = random.chance(0.5);
}

void draw_late_options(Case& c, Random& random) {
  if (random.chance(0.25)) {
    c.mask = true;
    c.mask_shape = {random.chance(0.5), random.chance(0.5), random.chance(0.6), random.chance(0.85)};
    c.mask_transposed = random.chance(0.3);
  }
  c.alibi_batch = c.alibi && random.chance(0.5);
  c.seed_data = c.dropout > 0 && random.chance(0.4);
  c.d_lse = random.chance(0.25);
  c.batch_invariant = random.chance(0.25);
  c.layout_lse = random.pick({Layout::bhsd, Layout::bhsd, Layout::bshd, Layout::padded});
  if (!random.chance(0.15)) return;
  for (std::int64_t b = 0; b < c.batch; ++b) {
    c.first_keys.push_back(random.chance(0.3) ? 0 : random.chance(0.1) ? c.sk : random.between(0, c.seqlen_k(b)));
  }
}

}  // namespace

Case grid_case(std::int64_t index) {
  Random random(0x5eed0000u + static_cast<std::uint64_t>(index) * 7919);
  Case c;
  c.index = index;
  c.seed = random.next() >> 32;
  draw_shape(c, random);
  draw_lengths(c, random);
  draw_mask(c, random);
  draw_options(c, random);
  draw_memory(c, random);
  draw_late_options(c, random);
  return c;
}

std::vector<std::string> required_features() {
  std::vector<std::string> list;
  const auto add = [&](const char* axis, std::initializer_list<const char*> values) {
    for (const char* value : values) list.push_back(fmt::format("{}={}", axis, value));
  };
  for (const std::int64_t s : kSequences)
    list.push_back(fmt::format("Sq={}", s)), list.push_back(fmt::format("Sk={}", s));
  for (const std::int64_t s : kLongSequences) list.push_back(fmt::format("Sk={}", s));
  for (const std::int64_t d : kHeadDims)
    list.push_back(fmt::format("D={}", d)), list.push_back(fmt::format("Dv={}", d));
  add("dtype", {"fp32", "fp16", "bf16"});
  add("batch", {"1", "2", "3", "5"});
  add("group", {"1", "2", "3", "4", "8"});
  add("heads_q", {"1", "2", "3", "4", "6", "8"});
  add("Sq-Sk", {"less", "equal", "more"});
  add("Dv-D", {"equal", "differ"});
  add("causal", {"no", "unset", "top_left", "bottom_right"});
  add("window", {"none", "left", "right", "both", "none+causal", "left+causal", "right+causal", "both+causal", "zero"});
  add("scale", {"default", "zero", "negative", "large", "given"});
  add("softcap", {"on", "off"});
  add("alibi", {"no", "top_left", "bottom_right"});
  add("bias", {"none", "[1,1,1,Sk]", "[1,1,Sq,Sk]", "[1,H,1,Sk]", "[1,H,Sq,Sk]", "[B,1,1,Sk]", "[B,1,Sq,Sk]",
               "[B,H,1,Sk]", "[B,H,Sq,Sk]"});
  add("bias_dtype", {"fp32", "narrow"});
  add("bias_values", {"normal", "some_minus_inf", "rows_minus_inf", "lowest"});
  add("dbias", {"yes", "no"});
  add("sinks", {"on", "off"});
  add("dropout", {"0", "0.1", "0.5"});
  add("lengths", {"none", "keys", "rows", "both", "packed", "zero"});
  add("index_bits", {"32", "64"});
  add("packed", {"zero_length"});
  add("layout", {"bhsd", "bshd", "padded", "expanded_batch", "expanded_heads", "expanded_rows"});
  add("layout_bias", {"bhsd", "bshd", "padded", "expanded_rows"});
  add("layout_do",
      {"bhsd", "bshd", "padded", "expanded_batch", "expanded_heads", "expanded_rows", "expanded_last", "expanded_all"});
  add("layout_out", {"bhsd", "bshd", "padded"});
  add("aligned", {"yes", "no"});
  add("values", {"normal", "large", "integer"});
  add("threads", {"1", "2", "3", "4"});
  add("workspace", {"own", "library"});
  add("mask", {"none", "[1,1,1,Sk]", "[1,1,Sq,Sk]", "[1,H,1,Sk]", "[1,H,Sq,Sk]", "[B,1,1,Sk]", "[B,1,Sq,Sk]",
               "[B,H,1,Sk]", "[B,H,Sq,Sk]", "transposed"});
  add("d_lse", {"on", "off"});
  add("layout_lse", {"bhsd", "bshd", "padded"});
  add("first_keys", {"no", "yes"});
  list.insert(list.end(), {"alibi=batch", "dropout=seed_data", "batch_invariant"});
  list.push_back("fused_qkv");
  list.push_back("blocks=several");
  return list;
}

}  // namespace strobe::test
