// A test case: shape, dtype, mask, options, memory layouts and seed of one attention problem. data.h draws its inputs,
// run.h runs it through the public API, compare.h judges the results.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "strobe/attention.h"
#include "support/tensor.h"

namespace strobe::test {

inline constexpr DType kDTypes[] = {DType::fp32, DType::fp16, DType::bf16};
inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Dimensions of the bias [B, Hq, Sq, Sk] that are not broadcast.
struct BiasShape {
  bool batch = false;
  bool heads = false;
  bool rows = false;
};

// Dimensions of the boolean mask [B, Hq, Sq, Sk] that are not broadcast.
struct MaskShape {
  bool batch = false;
  bool heads = false;
  bool rows = false;
  bool keys = false;
};

enum class BiasValues { normal, some_minus_inf, rows_minus_inf, lowest };
enum class Values { normal, large, integer };
enum class Lengths { none, keys, rows, both, packed };

struct Case {
  std::int64_t index = -1;  // index in the grid; -1 for other cases
  std::uint64_t seed = 1;

  DType dtype = DType::fp32;
  std::int64_t batch = 1;  // number of sequences, also in a packed batch
  std::int64_t heads_q = 1, heads_kv = 1;
  std::int64_t sq = 1, sk = 1;  // rows and keys per sequence; in a packed batch the longest
  std::int64_t d = 8, dv = 8;

  std::optional<float> scale{};
  bool causal = false;
  Window window{};
  Alignment alignment = Alignment::unset;
  float softcap = 0;
  bool alibi = false;
  bool alibi_batch = false;  // with alibi: slopes per sequence
  bool bias = false;
  BiasShape bias_shape{};
  BiasValues bias_values = BiasValues::normal;
  DType bias_dtype = DType::fp32;
  bool dbias = true;  // with a bias: the backward also computes its gradient
  bool sinks = false;
  float dropout = 0;
  bool seed_data = false;  // with dropout: the seed is passed by pointer
  bool mask = false;       // a boolean mask
  MaskShape mask_shape{};
  bool mask_transposed = false;  // the mask's memory is [B][H][Sk][Sq]
  bool d_lse = false;            // the loss also depends on LSE

  Lengths lengths = Lengths::none;
  std::vector<std::int64_t> lengths_q{}, lengths_k{};  // [batch]; used if `lengths` requires them
  int index_bits = 32;
  std::vector<std::int64_t> first_keys{};  // [batch], or empty

  Layout layout_q = Layout::bhsd, layout_k = Layout::bhsd, layout_v = Layout::bhsd, layout_bias = Layout::bhsd;
  Layout layout_do = Layout::bhsd;
  Layout layout_lse = Layout::bhsd;  // also of d_lse; on CUDA only of d_lse
  Layout layout_out = Layout::bhsd;  // of o, dq, dk, dv, dbias
  bool fused = false;                // q, k, v (and dq, dk, dv) inside one tensor [B, S, Hq + 2 Hkv, D]
  std::int64_t misalign = 0;         // offset of the first element from a multiple of 64 bytes, in elements

  Values values = Values::normal;
  int threads = 1;
  bool own_workspace = false;    // the test provides a workspace of exactly workspace_bytes()
  bool batch_invariant = false;  // run() sets the option for flash2 only

  bool packed() const { return lengths == Lengths::packed; }
  // Returns true if the causal mask, window or lengths may give rows different numbers of keys.
  bool uneven() const { return causal || window.left >= 0 || window.right >= 0 || lengths != Lengths::none; }
  // Returns the case without the options that only CPU kernels compute, or also without those that hopper never does.
  Case for_gpu() const;
  Case for_hopper() const;
  std::int64_t seqlen_q(std::int64_t b) const {
    return lengths_q.empty() ? sq : lengths_q[static_cast<std::size_t>(b)];
  }
  std::int64_t seqlen_k(std::int64_t b) const {
    return lengths_k.empty() ? sk : lengths_k[static_cast<std::size_t>(b)];
  }
  std::int64_t first_key(std::int64_t b) const {
    return first_keys.empty() ? 0 : std::min(first_keys[static_cast<std::size_t>(b)], seqlen_k(b));
  }
  std::int64_t total_q() const;  // rows of Q's view
  std::int64_t total_k() const;
  Shape bias_dims() const;
  Shape mask_dims() const;
};

// Parses a case from a text (core/case_text.h) such as "b2 h4/2 s100x37 d24/16 bf16 causal=bottom_right window=3:-1
// sinks seed=7": 2 sequences, 4 query heads, 2 KV heads, 100 query rows, 37 keys, D 24, Dv 16. Omitted options have the
// defaults of Case; KV heads, keys and Dv default to query heads, query rows and D.
// In addition to bench's options there are
//   align=top_left|bottom_right   window=L:R   scale=F   softcap=F   alibi   sinks   dropout=P   bias=bhqk (1:
//   broadcast) bias_dtype=T bias_values=some_minus_inf|rows_minus_inf|lowest dbias=off lengths_q=N,... lengths_k=N,...
//   packed index_bits=64 q=LAYOUT k= v= bias_layout= do= lse= out= fused misalign=N values=large|integer threads=N
//   own_workspace seed=N alibi_batch seed_data mask=bhqk (1: broadcast) mask_transposed first_keys=N,... d_lse
//   batch_invariant
// Switches are also NAME=true and NAME=false. Throws Error(invalid_argument).
Case parse_case(std::string_view text);

// Formats `text` with {fmt} and parses the result.
template <class... Values>
Case case_from(fmt::format_string<Values...> text, Values&&... values) {
  return parse_case(fmt::format(text, std::forward<Values>(values)...));
}

// Returns a text from which parse_case() makes the same case, except for its index.
std::string text_of(const Case& c);

const char* text_of(Alignment alignment);
const char* text_of(Lengths lengths);
const char* text_of(BiasValues values);
const char* text_of(Values values);

// Returns the text of the case, preceded by its index if it is a case of the grid (STROBE_TEST_CASE repeats it).
std::string describe(const Case& c);

// Returns the axis values that a case covers, such as "dtype=bf16" or "window=left". grid_test.cpp checks that the grid
// covers every value.
std::vector<std::string> features(const Case& c);

}  // namespace strobe::test
