// Passes random problem descriptions to the validator, which must accept each or reject it with a one-line error.
// STROBE_FUZZ_TRIES sets the number of tries (default: a million; 100,000 under a sanitizer), STROBE_FUZZ_SEED the
// first seed. About one try in a thousand also runs a valid problem. Its tensors have no spare memory, so sanitizers
// detect accesses outside them.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "attention/kernel.h"
#include "attention/validate.h"
#include "core/half.h"
#include "support/sanitized.h"

namespace strobe {
namespace {

constexpr std::uint64_t kTries = test::kSanitized ? 100000 : 1000000;  // a sanitizer makes each try ten times slower

using Shape = std::array<std::int64_t, 4>;

std::uint64_t environment(const char* name, std::uint64_t fallback) {
  const char* const text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : fallback;
}

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t next() { return engine_(); }
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(n)); }
  std::int64_t between(std::int64_t lo, std::int64_t hi) { return lo + below(hi - lo + 1); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24f; }
  template <class T, std::size_t N>
  T pick(const T (&values)[N]) {
    return values[next() % N];
  }

  // Returns a random size or stride, often near a limit of the library or of integer arithmetic.
  std::int64_t nasty() {
    static constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
    static constexpr std::int64_t kValues[] = {-1,
                                               0,
                                               1,
                                               2,
                                               3,
                                               17,
                                               64,
                                               255,
                                               256,
                                               257,
                                               65536,
                                               (1LL << 31) - 66,
                                               (1LL << 31) - 65,
                                               (1LL << 31) - 64,
                                               1LL << 31,
                                               1LL << 32,
                                               1LL << 40,
                                               1LL << 50,
                                               1LL << 61,
                                               kMax - 1,
                                               kMax,
                                               -kMax - 1,
                                               -kMax,
                                               -(1LL << 32)};
    return one_in(8) ? static_cast<std::int64_t>(next()) >> below(64) : pick(kValues);
  }
  float nasty_float() {
    static constexpr float kInf = std::numeric_limits<float>::infinity();
    static constexpr float kValues[] = {
        0, -0.0f, 1, -1, 0.5f, 0.999999940395355f, 1e-45f, 1e38f, kInf, -kInf, std::numeric_limits<float>::quiet_NaN()};
    return pick(kValues);
  }

 private:
  std::mt19937_64 engine_;
};

DType random_dtype(Dice& dice) {
  static constexpr DType kTypes[] = {DType::fp32, DType::fp16, DType::bf16};
  return dice.pick(kTypes);
}

// ---- Descriptions for the validator. It never dereferences tensor pointers, which are fake. It reads lengths and
// offsets, which are in arrays of exactly their size.

struct Description {
  Attention attention;
  ForwardOutputs outputs;
  BackwardInputs inputs;
  Gradients gradients;
  Execution execution;
  std::vector<std::int64_t> indices_q, indices_k;  // 64-bit lengths or offsets
  std::vector<std::int32_t> indices_32;            // 32-bit lengths, the same for Q and K
};

// Returns distinct aligned addresses outside the memory of this process.
template <class T>
T* address(int n) {
  return reinterpret_cast<T*>(std::uintptr_t{0x10000} * static_cast<std::uintptr_t>(n + 1));
}

View described(Dice& dice, int n, DType dtype, const Shape& shape) {
  return dice.one_in(2) ? view_bhsd<void>(address<void>(n), dtype, shape)
                        : view_bshd<void>(address<void>(n), dtype, shape);
}

void add_lengths(Dice& dice, Description& d, std::int64_t batch, std::int64_t sq, std::int64_t sk) {
  for (std::int64_t b = 0; b < batch; ++b) {
    d.indices_q.push_back(dice.between(0, sq));
    d.indices_k.push_back(dice.between(0, sk));
    d.indices_32.push_back(static_cast<std::int32_t>(dice.between(0, std::min(sq, sk))));
  }
  if (dice.one_in(2)) {
    d.attention.lengths_q = d.attention.lengths_k = view_index(d.indices_32.data(), batch);
    return;
  }
  if (!dice.one_in(3)) d.attention.lengths_q = view_index(d.indices_q.data(), batch);
  if (!dice.one_in(3)) d.attention.lengths_k = view_index(d.indices_k.data(), batch);
}

std::vector<std::int64_t> random_offsets(Dice& dice, std::int64_t sequences, std::int64_t total) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(sequences) + 1, 0);
  for (std::size_t i = 1; i < offsets.size(); ++i) offsets[i] = dice.between(offsets[i - 1], total);
  offsets.back() = total;
  return offsets;
}

// Describes a problem that is usually valid and small. Sizes may be too large, and a required alignment may be missing.
void describe(Dice& dice, Description& d) {
  const bool large = dice.one_in(6);
  const auto size = [&](std::int64_t most) {
    return large && dice.one_in(3) ? std::abs(dice.nasty() >> 1) : dice.between(0, most);
  };
  const std::int64_t heads_kv = size(3), heads_q = heads_kv < (1 << 20) ? heads_kv * dice.between(1, 4) : heads_kv;
  const std::int64_t dim = dice.between(1, 256), dim_v = dice.between(1, 256);
  const bool packed = dice.one_in(6);
  const std::int64_t batch = packed ? 1 : size(4), sq = size(9), sk = dice.one_in(2) ? sq : size(9);
  const DType dtype = random_dtype(dice);
  Attention& a = d.attention;
  a.q = described(dice, 0, dtype, {batch, heads_q, sq, dim});
  a.k = described(dice, 1, dtype, {batch, heads_kv, sk, dim});
  a.v = described(dice, 2, dtype, {batch, heads_kv, sk, dim_v});
  const Shape shape_o{batch, heads_q, sq, dim_v};
  d.outputs = {.o = described(dice, 3, dtype, shape_o), .lse = dice.one_in(2) ? address<float>(4) : nullptr};
  d.inputs = {.o = d.outputs.o, .lse = address<float>(4), .d_o = described(dice, 5, dtype, shape_o)};
  d.gradients.dq = described(dice, 6, dtype, a.q.shape);
  d.gradients.dk = described(dice, 7, dtype, a.k.shape);
  d.gradients.dv = described(dice, 8, dtype, a.v.shape);
  a.causal = dice.one_in(3);
  if (dice.one_in(3)) a.window = {dice.between(-1, 9), dice.between(-1, 9)};
  if (!dice.one_in(6)) a.alignment = dice.one_in(2) ? Alignment::top_left : Alignment::bottom_right;
  if (dice.one_in(4)) a.alibi_slopes = address<float>(9);
  if (dice.one_in(4)) a.sinks = address<float>(10);
  if (a.sinks && dice.one_in(2)) d.gradients.dsinks = address<float>(11);
  if (dice.one_in(4)) a.scale = dice.uniform();
  if (dice.one_in(4)) a.softcap = dice.uniform();
  if (dice.one_in(4)) a.dropout = {.p = dice.uniform(), .seed = dice.next()};
  std::int64_t sequences = batch, rows = sq, keys = sk;
  if (packed && sq < 1000 && sk < 1000) {
    sequences = dice.between(1, 4);
    d.indices_q = random_offsets(dice, sequences, sq);
    d.indices_k = random_offsets(dice, sequences, sk);
    a.cu_seqlens_q = view_index(d.indices_q.data(), sequences + 1);
    a.cu_seqlens_k = view_index(d.indices_k.data(), sequences + 1);
    rows = keys = 0;
    for (std::size_t b = 0; b + 1 < d.indices_q.size(); ++b) {
      rows = std::max(rows, d.indices_q[b + 1] - d.indices_q[b]);
      keys = std::max(keys, d.indices_k[b + 1] - d.indices_k[b]);
    }
  } else if (batch < 100 && sq < (1LL << 31) && sk < (1LL << 31) && dice.one_in(4)) {
    add_lengths(dice, d, batch, sq, sk);
  }
  if (dice.one_in(4)) {
    const auto some = [&](std::int64_t n) { return dice.one_in(2) ? n : 1; };
    a.bias =
        described(dice, 12, dice.one_in(2) ? dtype : DType::fp32, {some(sequences), some(heads_q), some(rows), keys});
    if (dice.one_in(2)) d.gradients.dbias = described(dice, 13, DType::fp32, a.bias.shape);
  }
  d.execution.threads = static_cast<int>(dice.between(0, 8));
}

template <class Void>
void spoil(Dice& dice, BasicView<Void>& view) {
  switch (dice.below(6)) {
    case 0: view.shape[static_cast<std::size_t>(dice.below(4))] = dice.nasty(); break;
    case 1: view.stride[static_cast<std::size_t>(dice.below(4))] = dice.nasty(); break;
    case 2: view.data = nullptr; break;
    case 3: view.data = reinterpret_cast<Void*>(static_cast<std::uintptr_t>(dice.nasty())); break;
    case 4: view.dtype = static_cast<DType>(dice.between(-1, 4)); break;
    case 5: view = {}; break;
  }
}

// Changes one argument at random. The result may be valid or invalid.
void spoil(Dice& dice, Description& d) {
  Attention& a = d.attention;
  const auto index = [&](IndexView& view) {
    // A larger count would claim memory that does not exist.
    if (dice.one_in(2)) view.count = std::min(view.count, dice.nasty());
    if (dice.one_in(4)) view.data = nullptr;
    if (dice.one_in(4)) view.bits = static_cast<int>(dice.one_in(2) ? 16 : std::min<std::int64_t>(view.bits, 32));
  };
  switch (dice.below(26)) {
    case 0: return spoil(dice, a.q);
    case 1: return spoil(dice, a.k);
    case 2: return spoil(dice, a.v);
    case 3: return spoil(dice, a.bias);
    case 4: return spoil(dice, d.outputs.o);
    case 5: return spoil(dice, d.inputs.o);
    case 6: return spoil(dice, d.inputs.d_o);
    case 7: return spoil(dice, d.gradients.dq);
    case 8: return spoil(dice, d.gradients.dk);
    case 9: return spoil(dice, d.gradients.dv);
    case 10: return spoil(dice, d.gradients.dbias);
    case 11: a.scale = dice.nasty_float(); break;
    case 12: a.softcap = dice.nasty_float(); break;
    case 13: a.dropout.p = dice.nasty_float(); break;
    case 14: a.window = {dice.nasty(), dice.nasty()}; break;
    case 15: a.alignment = static_cast<Alignment>(dice.between(-1, 4)); break;
    case 16: a.alibi_slopes = reinterpret_cast<const float*>(static_cast<std::uintptr_t>(dice.nasty())); break;
    case 17: a.sinks = reinterpret_cast<const float*>(static_cast<std::uintptr_t>(dice.nasty())); break;
    case 18: d.gradients.dsinks = reinterpret_cast<float*>(static_cast<std::uintptr_t>(dice.nasty())); break;
    case 19: d.inputs.lse = reinterpret_cast<const float*>(static_cast<std::uintptr_t>(dice.nasty())); break;
    case 20: return index(a.lengths_q);
    case 21: return index(a.cu_seqlens_k);
    case 22:
      if (!d.indices_q.empty())
        d.indices_q[static_cast<std::size_t>(dice.below(std::ssize(d.indices_q)))] = dice.nasty();
      break;
    case 23:
      if (!d.indices_k.empty())
        d.indices_k[static_cast<std::size_t>(dice.below(std::ssize(d.indices_k)))] = dice.nasty();
      break;
    case 24: d.execution.threads = static_cast<int>(dice.nasty()); break;
    case 25: a.q.shape[2] = a.k.shape[2] = a.v.shape[2] = dice.nasty(); break;
  }
}

// Checks the conditions that kernels assume about a validated problem.
void check_problem(const Problem& problem) {
  ASSERT_GE(problem.d, 1);
  ASSERT_LT(std::max(problem.d, problem.dv), (1LL << 31) - 64);
  ASSERT_TRUE(problem.heads_q == 0 || problem.heads_q == problem.heads_kv * problem.group);
  ASSERT_GE(problem.threads, 1);
  ASSERT_TRUE(std::isfinite(problem.scale));
  ASSERT_LT(std::max(problem.max_seqlen_q, problem.max_seqlen_k), (1LL << 31) - 64);
  ASSERT_LE(std::max(problem.window.left, problem.window.right), problem.max_seqlen_q + problem.max_seqlen_k);
  for (const ConstView& view : {problem.q, problem.k, problem.v}) ASSERT_EQ(view.stride[3], 1);
  ASSERT_TRUE(problem.d_o.stride[3] == 0 || problem.d_o.stride[3] == 1);
  if (problem.has_bias && problem.bias.shape[2] == 1) {
    ASSERT_EQ(problem.bias.stride[2], 0);
  }
  for (std::int64_t b = 0; b < std::min<std::int64_t>(problem.batch, 8); ++b) {
    const Extent extent = problem.extent(b);
    ASSERT_GE(std::min(extent.seqlen_q, extent.seqlen_k), 0);
    ASSERT_LE(extent.seqlen_q, problem.max_seqlen_q);
    ASSERT_LE(extent.seqlen_k, problem.max_seqlen_k);
  }
}

struct Tally {
  std::int64_t accepted = 0, refused = 0, ran = 0;
};

// Runs one description through one of the three validators. After validate_query() also calls workspace_bytes() and,
// rarely, explain().
void try_description(Dice& dice, Tally& tally) {
  Description d;
  describe(dice, d);
  for (std::int64_t spoils = dice.below(4); spoils > 0; --spoils) spoil(dice, d);
  const std::int64_t entry = dice.below(4);
  try {
    if (entry == 0) {
      check_problem(validate_forward(d.attention, d.outputs, d.execution));
    } else if (entry == 1) {
      check_problem(validate_backward(d.attention, d.inputs, d.gradients, d.execution));
    } else {
      const Pass pass = entry == 2 ? Pass::forward : Pass::backward;
      check_problem(validate_query(d.attention, pass, d.execution));
      workspace_bytes(d.attention, pass, d.execution);
      if (dice.one_in(16)) explain(d.attention, pass, d.execution);
    }
    ++tally.accepted;
  } catch (const Error& error) {
    const std::string text = error.what();
    ASSERT_EQ(text.rfind("attention: ", 0), 0u) << text;
    ASSERT_EQ(text.find('\n'), std::string::npos) << text;
    // flash2 has no tiles for large head dimensions, although the problem itself is valid.
    const bool refused_by_kernel = text.find("'flash2' refuses: head dimensions") != std::string::npos;
    ASSERT_EQ(error.code(), refused_by_kernel ? ErrorCode::unsupported : ErrorCode::invalid_argument) << text;
    ++tally.refused;
  }
}

// ---- Runs of valid problems. Each tensor has memory of exactly its size, its dimensions in any order, and some
// negative strides.

class Memory {
 public:
  explicit Memory(Dice& dice) : dice_(dice) {}

  View tensor(DType dtype, const Shape& shape, bool input, bool last_may_be_0 = false) {
    Shape stride{0, 0, 0, 1};
    std::array<std::size_t, 3> order{2, 1, 0};
    std::swap(order[static_cast<std::size_t>(dice_.below(3))], order[0]);
    std::int64_t step = shape[3] + dice_.below(3), first = 0, last = shape[3] - 1;
    if (last_may_be_0 && dice_.one_in(4)) stride[3] = last = 0;
    for (const std::size_t i : order) {
      if (input && dice_.one_in(6)) continue;  // stride 0: an expanded dimension
      const std::int64_t reach = std::max<std::int64_t>(0, shape[i] - 1) * step;
      const bool backwards = dice_.one_in(5);
      stride[i] = backwards ? -step : step;
      (backwards ? first : last) += reach;
      step += reach + dice_.below(2);
    }
    const bool empty = shape[0] * shape[1] * shape[2] * shape[3] == 0;
    if (empty) return {nullptr, dtype, shape, stride};
    void* const data = block((first + last + 1) * static_cast<std::int64_t>(size_of(dtype)));
    for (std::int64_t i = 0; i <= first + last; ++i) store_element(data, dtype, i, 2 * dice_.uniform() - 1);
    return {static_cast<char*>(data) + first * static_cast<std::int64_t>(size_of(dtype)), dtype, shape, stride};
  }

  float* floats(std::int64_t count) {
    auto* const data = static_cast<float*>(block(count * 4));
    for (std::int64_t i = 0; i < count; ++i) data[i] = dice_.uniform();
    return data;
  }

 private:
  void* block(std::int64_t bytes) {
    blocks_.push_back(std::make_unique<char[]>(static_cast<std::size_t>(bytes)));
    return blocks_.back().get();
  }

  Dice& dice_;
  std::vector<std::unique_ptr<char[]>> blocks_;
};

void expect_no_nan(const View& view, const char* name) {
  for (std::int64_t b = 0; b < view.shape[0]; ++b)
    for (std::int64_t h = 0; h < view.shape[1]; ++h)
      for (std::int64_t i = 0; i < view.shape[2]; ++i)
        for (std::int64_t c = 0; c < view.shape[3]; ++c) {
          const std::int64_t at = b * view.stride[0] + h * view.stride[1] + i * view.stride[2] + c * view.stride[3];
          ASSERT_FALSE(std::isnan(load_element(view.data, view.dtype, at))) << name << " " << b << h << i << c;
        }
}

void run_one(Dice& dice, Tally& tally) {
  Description d;
  describe(dice, d);
  Attention& a = d.attention;
  for (const std::int64_t size : {a.q.shape[0], a.q.shape[1], a.k.shape[1], a.q.shape[2], a.k.shape[2]}) {
    if (size > 16) return;  // only small problems run
  }
  Memory memory(dice);
  const DType dtype = a.q.dtype;
  a.q = memory.tensor(dtype, a.q.shape, true);
  a.k = memory.tensor(dtype, a.k.shape, true);
  a.v = memory.tensor(dtype, a.v.shape, true);
  if (a.bias.data) a.bias = memory.tensor(a.bias.dtype, a.bias.shape, true);
  if (a.sinks) a.sinks = memory.floats(a.q.shape[1]);
  if (a.alibi_slopes) a.alibi_slopes = memory.floats(a.q.shape[1]);
  if (a.alignment == Alignment::unset) a.alignment = Alignment::bottom_right;
  d.outputs.o = memory.tensor(dtype, d.outputs.o.shape, false);
  d.outputs.lse = memory.floats(a.q.shape[0] * a.q.shape[1] * a.q.shape[2]);
  d.inputs = {.o = d.outputs.o, .lse = d.outputs.lse, .d_o = memory.tensor(dtype, d.outputs.o.shape, true, true)};
  d.gradients.dq = memory.tensor(dtype, a.q.shape, false);
  d.gradients.dk = memory.tensor(dtype, a.k.shape, false);
  d.gradients.dv = memory.tensor(dtype, a.v.shape, false);
  if (d.gradients.dbias.data) d.gradients.dbias = memory.tensor(DType::fp32, a.bias.shape, false);
  if (d.gradients.dsinks) d.gradients.dsinks = memory.floats(a.q.shape[1]);
  static constexpr const char* kKernels[] = {"", "flash2", "frugal", "standard", "reference"};
  d.execution = {.kernel = dice.pick(kKernels), .threads = static_cast<int>(dice.between(1, 3))};
  SCOPED_TRACE(d.execution.kernel);
  ASSERT_NO_THROW(forward(a, d.outputs, d.execution));
  ASSERT_NO_FATAL_FAILURE(expect_no_nan(d.outputs.o, "O"));
  ASSERT_NO_THROW(backward(a, d.inputs, d.gradients, d.execution));
  ASSERT_NO_FATAL_FAILURE(expect_no_nan(d.gradients.dq, "dQ"));
  ASSERT_NO_FATAL_FAILURE(expect_no_nan(d.gradients.dk, "dK"));
  ASSERT_NO_FATAL_FAILURE(expect_no_nan(d.gradients.dv, "dV"));
  if (d.gradients.dbias.data) {
    ASSERT_NO_FATAL_FAILURE(expect_no_nan(d.gradients.dbias, "dbias"));
  }
  ++tally.ran;
}

TEST(Fuzz, ValidatorNeverCrashes) {
  const auto tries = static_cast<std::int64_t>(environment("STROBE_FUZZ_TRIES", kTries));
  const std::uint64_t seed = environment("STROBE_FUZZ_SEED", 1);
  Tally tally;
  for (std::int64_t i = 0; i < tries; ++i) {
    Dice dice(seed + static_cast<std::uint64_t>(i));
    try_description(dice, tally);
    if (!HasFatalFailure() && i % 1000 == 0) run_one(dice, tally);
    if (HasFailure())
      FAIL() << "repeat with STROBE_FUZZ_TRIES=1 STROBE_FUZZ_SEED=" << seed + static_cast<std::uint64_t>(i);
  }
  RecordProperty("accepted", std::to_string(tally.accepted));
  RecordProperty("refused", std::to_string(tally.refused));
  RecordProperty("ran", std::to_string(tally.ran));
  if (tries >= 10000) {  // enough tries to see both outcomes
    EXPECT_GT(tally.accepted, tries / 10);
    EXPECT_GT(tally.refused, tries / 10);
    EXPECT_GT(tally.ran, tries / 2000);
  }
}

}  // namespace
}  // namespace strobe
