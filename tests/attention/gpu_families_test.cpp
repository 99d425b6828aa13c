// Runs one small case per family of GPU kernels against the float64 oracle: each tile kind and head dimension, split
// keys, score options, dQ with and without ordered accumulation, fp32 split into 16-bit floats, and the kernels of
// `standard`. Most cases have several tiles, the last one partial. tools/gpu-check runs this test under
// compute-sanitizer, which is too slow for larger cases. The case `rings` of `hopper` fills each pipeline stage several
// times, because a kernel that releases stages incorrectly may pass if it fills each stage only once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "device/gpu_facts.h"
#include "support/compare.h"
#include "support/gpu.h"
#include "support/spread.h"

namespace strobe::test {
namespace {

struct Family {
  std::string name;
  Case c;
  // Text that explain() must contain for each pass, on a GPU with at least 227 KB of shared memory per block and 114
  // multiprocessors. Empty: not checked.
  std::string forward{}, backward{};
  bool deterministic = true;
  const char* shared_kb = nullptr;  // KB of shared memory per block that the library assumes; null: those of the GPU
  std::string kernel = "flash2";
  bool tf32 = false;
  bool spread = false;  // adjacent rows have very different magnitudes
  bool forward_only = false;
};

std::ostream& operator<<(std::ostream& stream, const Family& family) { return stream << family.name; }

Case plain(DType dtype, std::int64_t d) { return case_from("h2/1 s150x200 d{} {} seed=21", d, name_of(dtype)); }

// One row, so the keys are split.
Case decode(DType dtype, std::int64_t d) { return case_from("h4/1 s1x600 d{} {} seed=22", d, name_of(dtype)); }

Case with_options(DType dtype, std::int64_t d, const BiasShape& bias_shape) {
  Case c = case_from("b2 h2/1 s70x150 d{} {} seed=23", d, name_of(dtype));
  c.causal = true, c.alignment = Alignment::bottom_right, c.window = {60, -1};
  c.softcap = 5, c.alibi = true, c.sinks = true, c.dropout = 0.2f;
  c.bias = true, c.bias_shape = bias_shape, c.bias_dtype = dtype;
  return c;
}

Case packed(DType dtype) {
  Case c = case_from("b3 h2/1 s130x140 d80/96 {} seed=24", name_of(dtype));
  c.lengths = Lengths::packed, c.lengths_q = {130, 0, 77}, c.lengths_k = {140, 31, 128};
  return c;
}

std::vector<Family> families() {
  const DType bf16 = DType::bf16, fp16 = DType::fp16, fp32 = DType::fp32;
  std::vector<Family> all;
  for (const std::int64_t d : {32, 64, 96, 128, 192, 256}) {
    const std::string text = "plain, head dimension " + std::to_string(d) + ",";
    all.push_back({"plain_" + std::to_string(d), plain(bf16, d), text, text, d % 64 == 0});
  }
  for (const std::int64_t d : {64, 128, 256}) {
    const std::string number = std::to_string(d);
    const BiasShape own{true, true, true}, shared{false, d > 64, d > 128};
    all.push_back({"decode_" + number, decode(bf16, d), "small, head dimension " + number + ","});
    all.push_back({"options_" + number, with_options(bf16, d, own), "", "", d == 64});
    all.push_back({"shared_bias_" + number, with_options(bf16, d, shared), "", "", d != 64});
    all.push_back({"options_fp32_" + number, with_options(fp32, d, d == 128 ? own : shared), "", "", d != 128});
  }
  for (const std::int64_t d : {64, 128}) {  // rows are multiples of 16 bytes, including those of the bias
    const std::string number = std::to_string(d), text = "options, head dimension " + number + ",";
    Case vectors = with_options(bf16, d, {false, true, true});
    vectors.sk = 152;
    all.push_back({"options_vectors_" + number, vectors, text, text, d == 64});
  }
  all.push_back({"any_order_dbias", with_options(bf16, 128, {false, true, true}), "", "", false});
  all.push_back({"any_order_dbias_fp32", with_options(fp32, 64, {true, false, true}), "", "", false});
  Case triangle = plain(bf16, 64), few = plain(bf16, 64), odd = plain(bf16, 65), soft = decode(bf16, 128);
  triangle.sk = triangle.sq, triangle.causal = true;
  few.sk = 20;
  odd.dv = 33;
  soft.softcap = 5;
  all.push_back({"triangle", triangle, "small, head dimension 64,"});
  all.push_back({"few_keys", few});
  all.push_back({"odd_rows", odd, "", "", false});
  all.push_back({"decode_softcap", soft, "keys split"});
  all.push_back({"packed", packed(bf16)});
  all.push_back({"plain_fp16", plain(fp16, 64), "", "", false});
  all.push_back({"options_fp16", with_options(fp16, 128, {true, true, true})});
  all.push_back({"plain_fp32_32", plain(fp32, 32), "plain, head dimension 32,", "plain, head dimension 32,", false});
  all.push_back({"plain_fp32_64", plain(fp32, 64), "plain, head dimension 64,", "plain, head dimension 64,"});
  all.push_back({"decode_fp32", decode(fp32, 64), "keys split"});
  // Boolean mask, left padding, slopes per sequence and a gradient of LSE. The padding ends inside a tile.
  const char* const late = "b2 h4/2 s150x200 mask=1hqk first_keys=21,150 alibi alibi_batch align=top_left sinks d_lse";
  const char* const padded = "b2 h4/2 s150x200 first_keys=21,150 d_lse lse=bshd";
  for (const auto& [name, dtype, d] :
       {std::tuple("bf16_64", bf16, 64), std::tuple("fp16_128", fp16, 128), std::tuple("bf16_256", bf16, 256),
        std::tuple("fp32_32", fp32, 32), std::tuple("fp32_64", fp32, 64), std::tuple("fp32_128", fp32, 128)}) {
    const std::string text = fmt::format("d{} {} seed=30", d, strobe::name_of(dtype));
    const std::string kind = d == 128 && dtype == fp32 ? "general," : "plain,";
    all.push_back({fmt::format("late_{}", name), case_from("{} {}", late, text), "general,", "general,", d != 64});
    all.push_back({fmt::format("padded_{}", name), case_from("{} {}", padded, text), kind, kind, d == 64});
  }
  Case cut = with_options(bf16, 64, {true, true, true}), cut_decode = decode(bf16, 128), mask_decode = cut_decode;
  cut.sk = 152, cut.first_keys = {70, 3}, cut.d_lse = true;
  cut_decode.first_keys = {310};
  mask_decode.mask = true, mask_decode.mask_shape = {false, true, true, true}, mask_decode.sinks = true;
  all.push_back({"padded_options", cut, "options,", "options,"});
  all.push_back({"padded_decode", cut_decode, "keys split"});
  all.push_back({"mask_decode", mask_decode, "keys split"});
  all.push_back({"mask_transposed", case_from("h2 s70x150 d64 bf16 mask=11qk mask_transposed dropout=0.2 seed=31")});
  Family late_cores{"late_cuda_cores_fp32", case_from("{} d48 fp32 seed=32", late), "CUDA cores", "CUDA cores"};
  late_cores.shared_kb = "8";
  all.push_back(late_cores);
  Family cores{"cuda_cores_fp32", with_options(fp32, 48, {false, true, false}), "CUDA cores", "CUDA cores"};
  cores.shared_kb = "8";
  all.push_back(cores);
  for (const std::int64_t d : {32, 64}) {
    Family tf32{"tf32_" + std::to_string(d), plain(fp32, d), ", tf32", ", tf32", d == 32};
    tf32.tf32 = true;
    all.push_back(tf32);
  }
  for (const std::int64_t d : {64, 128, 256}) {
    const std::string number = std::to_string(d);
    Case triangle = plain(bf16, d), window = plain(fp16, d);
    triangle.heads_kv = 1, triangle.causal = true, triangle.alignment = Alignment::bottom_right;
    window.sq = window.sk, window.window = {70, 33};
    Case lengths = packed(bf16);
    lengths.d = lengths.dv = d;
    const auto on_hopper = [&](const char* name, const Case& c, bool deterministic, const char* tiles = "") {
      Family family{"hopper_" + (name + ("_" + number)), c, "", tiles, deterministic};
      family.kernel = "hopper";
      all.push_back(family);
    };
    on_hopper("plain", plain(bf16, d), false);
    Case d_lse = triangle;
    d_lse.d_lse = true;
    on_hopper("d_lse", d_lse, true);
    on_hopper("triangle", triangle, true);
    on_hopper("window", window, d == 128);
    on_hopper("packed", lengths, d != 128);
    // Fills every pipeline stage several times: more key tiles than stages, and more tiles than blocks.
    Case rings = case_from("h280/2 s8x400 d{} {} seed=25", d, name_of(bf16));
    rings.causal = d != 128, rings.alignment = Alignment::bottom_right;
    on_hopper("rings", rings, d != 64);
    Case heads = rings;  // 560 heads: each block rounds several tiles of dQ
    heads.heads_q = 560, heads.heads_kv = 4, heads.sk = 140;
    on_hopper("heads", heads, d == 128);
    if (d == 256) continue;
    // With this many key tiles, each warpgroup of the backward owns some of the keys; they do not alternate row tiles.
    Case crowd = case_from("h96 s140 d{} {} seed=27", d, name_of(bf16));
    crowd.causal = d == 64;
    on_hopper("crowd", crowd, d == 128);
    // Long sequences use other tiles, and several blocks share the keys.
    Case longer = case_from("h68/1 s2x1545 d{} {} seed=26", d, name_of(bf16));
    on_hopper("long", longer, true);
    longer.causal = true, longer.alignment = Alignment::bottom_right;
    on_hopper("long_triangle", longer, true);
    Case split = longer;
    split.heads_q = 2, split.sq = 70;
    on_hopper("split", split, true);
    if (d == 64) continue;
    // Tall row tiles of the backward: in order with few heads, in any order with many key tiles.
    on_hopper("tall", case_from("h1 s4100x150 d128 {} seed=31", name_of(bf16)), true, "tiles of 80 rows");
    Case tall = case_from("b8 h2 s8200x1100 d128 {} seed=32", name_of(fp16));
    tall.lengths = Lengths::packed, tall.causal = true, tall.alignment = Alignment::bottom_right;
    tall.lengths_q = {77, 8200, 0, 3, 90, 1, 5, 10}, tall.lengths_k = {40, 150, 31, 3, 10, 1, 1100, 20};
    on_hopper("tall_packed", tall, false, "tiles of 80 rows");
  }
  for (const std::int64_t d : {64, 128}) {
    const auto decodes = [&](const char* name, const Case& c) {
      Family family{fmt::format("hopper_decode_{}_{}", name, d), c, fmt::format("decode, head dimension {},", d)};
      family.kernel = "hopper", family.forward_only = true;
      all.push_back(family);
    };
    decodes("split", decode(bf16, d));
    // Each block processes several items and fills every pipeline stage several times.
    decodes("rings", case_from("h560/280 s1x330 d{} {} seed=34", d, name_of(bf16)));
    Case full = case_from("b2 h16/1 s1x700 d{} {} window=500:0 align=bottom_right sinks seed=35", d, name_of(fp16));
    decodes("sixteen_rows", full);
    Case lengths = case_from("b3 h8/2 s3x400 d{} {} causal=bottom_right seed=36", d, name_of(bf16));
    lengths.lengths = Lengths::both, lengths.lengths_q = {3, 0, 2}, lengths.lengths_k = {400, 130, 31};
    lengths.first_keys = {137, 0, 5}, lengths.window = {150, -1};
    decodes("lengths", lengths);
    Case offsets = case_from("b3 h4/2 s2x300 d{}/{} {} seed=37", d - 8, d - 16, name_of(fp16));
    offsets.lengths = Lengths::packed, offsets.lengths_q = {2, 0, 1}, offsets.lengths_k = {300, 31, 128};
    decodes("packed", offsets);
  }
  // Head dimensions that the backward pads more than the forward does.
  const std::pair<std::int64_t, std::int64_t> forward_dims[] = {{96, 96}, {192, 128}, {192, 192}};
  for (const auto& [d, dv] : forward_dims) {
    Case wide = plain(bf16, d);
    wide.dv = dv, wide.causal = d == dv, wide.alignment = Alignment::bottom_right;
    Family family{fmt::format("hopper_plain_{}_{}", d, dv), wide, "", "", false};
    family.kernel = "hopper";
    all.push_back(family);
  }
  // Enough rows and heads for the forward to select the tile shapes of a full GPU.
  struct FullGpu {
    std::int64_t d, dv, heads, sq, sk;
    bool causal;
    const char* tiles;
  };
  const FullGpu full_gpus[] = {
      {64, 64, 89, 190, 1545, false, "192 rows x 128 keys"},   {64, 64, 100, 250, 229, false, "256 rows x 64 keys"},
      {64, 64, 67, 120, 250, false, "128 rows x 128 keys"},    {96, 96, 264, 190, 200, true, "192 rows x 80 keys"},
      {128, 128, 67, 120, 6153, false, "128 rows x 176 keys"}, {128, 128, 67, 128, 150, false, "128 rows x 128 keys"},
      {128, 128, 264, 190, 277, true, "192 rows x 80 keys"},   {192, 128, 67, 120, 200, false, "128 rows x 128 keys"},
      {192, 192, 67, 120, 200, false, "128 rows x 112 keys"},  {256, 256, 67, 120, 200, false, "128 rows x 80 keys"}};
  for (const auto& [d, dv, heads, sq, sk, causal, tiles] : full_gpus) {
    Case c = case_from("h{}/1 s{}x{} d{}/{} {} seed=28", heads, sq, sk, d, dv, name_of(bf16));
    c.causal = causal, c.alignment = Alignment::bottom_right;
    Family family{fmt::format("hopper_full_gpu_{}_{}_{}", d, dv, sk), c, tiles};
    family.kernel = "hopper", family.forward_only = true;
    all.push_back(family);
  }
  Case capped = plain(fp16, 128);
  capped.softcap = 5, capped.sinks = true;
  Family options{"hopper_softcap_sinks", capped};
  options.kernel = "hopper";
  all.push_back(options);
  for (const std::int64_t d : {64, 128, 256}) {
    Case plain = case_from("h280/2 s8x400 d{} {} seed=29", d, name_of(bf16));
    plain.causal = d == 64, plain.alignment = Alignment::bottom_right;
    const auto with_option = [&](const char* name, const Case& c, bool forward_only) {
      Family family{fmt::format("hopper_{}_{}", name, d), c};
      family.kernel = "hopper", family.forward_only = forward_only, family.deterministic = d == 128;
      all.push_back(family);
    };
    Case dropped = plain, sloped = plain, capped = plain, biased = plain;
    dropped.dropout = 0.2f, dropped.sinks = true;
    sloped.alibi = true;
    capped.softcap = 5;
    biased.bias = true, biased.bias_shape = {true, true, true}, biased.bias_dtype = bf16;
    with_option("dropout", dropped, false);
    with_option("alibi", sloped, false);
    with_option("softcap", capped, false);
    if (d != 256) with_option("bias", biased, false);
  }
  for (const std::int64_t d : {64, 128}) {
    const auto in_fp32 = [&](const char* name, const Case& c, bool is_spread = false) {
      Family family{"hopper_fp32_" + (name + ("_" + std::to_string(d))), c};
      family.kernel = "hopper", family.forward_only = true, family.spread = is_spread;
      all.push_back(family);
    };
    Case triangle = plain(fp32, d), lengths = packed(fp32), split = plain(fp32, d);
    triangle.heads_kv = 1, triangle.causal = true, triangle.alignment = Alignment::bottom_right;
    lengths.d = lengths.dv = d;
    split.sq = 70, split.sk = 1000;
    Case rings = case_from("h280/2 s8x400 d{} {} seed=25", d, name_of(fp32));
    in_fp32("plain", plain(fp32, d));
    in_fp32("spread", plain(fp32, d), true);
    in_fp32("triangle", triangle);
    in_fp32("packed", lengths);
    in_fp32("split", split);
    in_fp32("rings", rings);
    // Adds a case that runs forward and backward.
    const auto with_backward = [&](const char* name, const Case& c, bool deterministic, bool is_spread = false) {
      Family family{"hopper_fp32_backward_" + (name + ("_" + std::to_string(d))), c};
      family.kernel = "hopper", family.deterministic = deterministic, family.spread = is_spread;
      all.push_back(family);
    };
    with_backward("plain", plain(fp32, d), false);
    with_backward("spread", plain(fp32, d), true, true);
    with_backward("triangle", triangle, true);
    with_backward("packed", lengths, true);
    with_backward("rings", rings, false);
    triangle.d_lse = true, triangle.layout_lse = Layout::bshd;
    with_backward("d_lse", triangle, false);
  }
  for (const std::int64_t d : {32, 64}) {  // magnitudes too far apart for 2xFP16: the 3xBF16 kernels compute the result
    Family spread{"spread_fp32_" + std::to_string(d), plain(fp32, d), "plain,", "plain,", d == 32};
    spread.spread = true;
    all.push_back(spread);
  }
  for (const DType dtype : {bf16, fp16, fp32}) {
    for (const char* const kernel : {"standard", "frugal"}) {
      Family plain{fmt::format("{}_{}", kernel, strobe::name_of(dtype)), with_options(dtype, 32, {false, true, true})};
      plain.kernel = kernel;
      all.push_back(plain);
      plain.name += "_late", plain.c = case_from("{} d32 {} seed=33", late, strobe::name_of(dtype));
      all.push_back(plain);
    }
  }
  return all;
}

// Limits the shared memory per block that the library assumes, until the end of the scope. Null: changes nothing.
class SharedMemoryScope {
 public:
  explicit SharedMemoryScope(const char* kilobytes) {
    if (const char* set = std::getenv(kVariable)) before_ = set;
    if (kilobytes) setenv(kVariable, kilobytes, 1);
  }
  ~SharedMemoryScope() { before_ ? setenv(kVariable, before_->c_str(), 1) : unsetenv(kVariable); }

 private:
  static constexpr const char* kVariable = "STROBE_CUDA_SHARED_KB";
  std::optional<std::string> before_;
};

std::string configuration_of(const Family& family, const Attention& attention, Pass pass) {
  for (const Verdict& verdict : explain(attention, pass, {.device = Device::cuda, .tf32 = family.tf32})) {
    if (verdict.kernel == family.kernel) return verdict.configuration;
  }
  return {};
}

class GpuFamilies : public GpuTest, public testing::WithParamInterface<Family> {};

TEST_P(GpuFamilies, MatchesTheOracle) {
  const Family& family = GetParam();
  const GpuFacts& gpu = current_gpu().facts;
  const bool large_gpu = gpu.shared_bytes_per_block >= 227 << 10 && gpu.multiprocessors >= 114;
  const SharedMemoryScope limit(family.shared_kb);
  Data data(family.c);
  if (family.spread) spread(data, Spread::values, 24);
  GpuLane lane;
  GpuCase on_gpu(data, lane);
  const std::string refusal =
      on_gpu.refusal(family.kernel, family.forward_only ? std::optional(Pass::forward) : std::nullopt);
  if (family.kernel == "hopper" && needs_hopper(refusal)) GTEST_SKIP() << refusal;
  ASSERT_EQ(refusal, "");
  if (large_gpu) {
    const std::pair<Pass, std::string> wanted[] = {{Pass::forward, family.forward}, {Pass::backward, family.backward}};
    for (const auto& [pass, words] : wanted) {
      const std::string configuration = configuration_of(family, on_gpu.attention(), pass);
      EXPECT_NE(configuration.find(words), std::string::npos) << configuration;
    }
  }
  const Outcome outcome = on_gpu.run({.kernel = family.kernel,
                                      .deterministic = family.deterministic,
                                      .tf32 = family.tf32,
                                      .forward_only = family.forward_only});
  EXPECT_EQ(outcome.complaint, "");
  Case rounded = family.c;
  if (family.tf32) rounded.dtype = DType::fp16;  // fp16 has as many mantissa bits as TF32
  const Results reference = family.forward_only ? oracle_forward(data, 1) : oracle(data, 1);
  EXPECT_EQ(plausibility(rounded, reference, outcome.results), "") << describe(family.c);
}

INSTANTIATE_TEST_SUITE_P(All, GpuFamilies, testing::ValuesIn(families()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace strobe::test
