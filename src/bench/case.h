// Defines AttentionCase, one measured configuration: shapes, dtype, mask and passes. Computes its nominal FLOPs and
// tensor sizes, and generates its inputs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "app/fields.h"
#include "core/json.h"
#include "device/host/allocator.h"
#include "strobe/attention.h"

namespace strobe::bench {

enum class Passes { forward, backward, both };
constexpr const char* name_of(Passes passes) {
  return passes == Passes::both ? "both" : passes == Passes::forward ? "forward" : "backward";
}
constexpr bool has_forward(Passes passes) { return passes != Passes::backward; }
constexpr bool has_backward(Passes passes) { return passes != Passes::forward; }

// cold: a GPU's L2 cache is flushed before each timed call.
enum class Cache { cold, hot };

// Options that change the scores beyond scale and mask, and sequence lengths.
struct ScoreOptions {
  double softcap = 0;  // 0: none
  bool alibi = false;  // slopes 2^(-8 (h + 1) / heads)
  std::string bias{};  // bias shape: letter for a full dimension, 1 for broadcast, such as "1hqk"; empty: no bias
  bool bias_gradient = false;           // backward also writes dbias
  bool sinks = false;                   // one logit per head; backward also writes their gradient
  double dropout = 0;                   // probability
  std::vector<std::int32_t> lengths{};  // [batch], number of valid queries and keys per sequence; empty: all are full

  bool any() const { return softcap != 0 || alibi || !bias.empty() || sinks || dropout != 0 || !lengths.empty(); }
};

inline constexpr const char* kBiasShapes[] = {"bhqk", "b1qk", "1hqk", "11qk", "bh1k", "b11k", "1h1k", "111k"};

struct AttentionCase {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t seqlen_q = 1;
  std::int64_t seqlen_k = 1;
  std::int64_t head_dim = 1;
  DType dtype = DType::fp16;
  bool tf32 = false;           // allow TF32 for fp32 matmuls
  bool deterministic = false;  // bitwise reproducible backward on a GPU; on a CPU it always is
  bool causal = false;
  Alignment alignment = Alignment::unset;
  Window window{};
  Passes passes = Passes::both;  // passes to time
  int threads = 1;
  Device device = Device::cpu;
  Cache cache = Cache::cold;
  ScoreOptions options{};
  bool scaled = false;  // true if this is the default case, reduced for a CPU

  std::int64_t emb_dim() const { return heads * head_dim; }
  bool masked() const { return causal || window.left >= 0 || window.right >= 0; }
};

// [batch or 1, heads or 1, queries or 1, keys]; all zeros without a bias.
std::array<std::int64_t, 4> bias_shape(const AttentionCase& one);

// Number of valid query rows, and of valid keys, of a sequence.
std::int64_t rows_of(const AttentionCase& one, std::int64_t batch);
std::int64_t keys_of(const AttentionCase& one, std::int64_t batch);

// ", softcap 30, dropout 0.1"; empty without options.
std::string describe_options(const ScoreOptions& options);

// Adapts the lengths to a reduced case: drops those beyond the batch, and limits each to the sequence length.
void fit_lengths(AttentionCase& one);

// "batch 1, 8 heads x 64, sequence 1024, fp16, causal"
std::string describe(const AttentionCase& one);

// Keys that query row i of a sequence may use: [first, last).
struct Keys {
  std::int64_t first, last;
};
Keys visible_keys(const AttentionCase& one, std::int64_t batch, std::int64_t row);

// Rows of a sequence that may use key j: [first, last).
struct RowRange {
  std::int64_t first, last;
};
RowRange attending_rows(const AttentionCase& one, std::int64_t batch, std::int64_t key);

// Returns the bytes of the score matrices of all heads, including masked scores, in the case's dtype. Throws
// Error(invalid_argument) on overflow.
std::int64_t score_bytes(const AttentionCase& one);

// Returns the number of scores per head that neither the mask nor the lengths exclude, summed over the batch. Throws as
// score_bytes does.
std::int64_t unmasked_scores(const AttentionCase& one);

// Returns the offset of the diagonal: row i is aligned with key i + diagonal_offset().
std::int64_t diagonal_offset(const AttentionCase& one);

// Returns the nominal FLOPs of forward, which do not depend on the implementation: 4 B H Sq Sk D, halved if causal. If
// Sq != Sk, or with a window or lengths, counts 4 D per unmasked score. Backward counts 2.5 times as much.
double forward_flops(const AttentionCase& one);
inline double backward_flops(const AttentionCase& one) { return 2.5 * forward_flops(one); }

// Bytes of the tensors. Throws Error(invalid_argument) on overflow.
struct TensorBytes {
  std::int64_t q, k, v, o, lse;                      // a gradient has the size of its tensor
  std::int64_t bias, dbias, slopes, sinks, lengths;  // 0 if absent
  std::int64_t inputs() const { return q + k + v; }
  std::int64_t options() const { return bias + slopes + sinks + lengths; }
  std::int64_t forward() const { return inputs() + options() + o + lse; }
  std::int64_t backward_extra() const { return o + inputs() + dbias + sinks; }
};
TensorBytes tensor_bytes(const AttentionCase& one);

// Pointers to a case's input tensors on its device; null if absent.
struct Tensors {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* bias = nullptr;
  const float* slopes = nullptr;          // [heads]
  const float* sinks = nullptr;           // [heads]
  const std::int32_t* lengths = nullptr;  // [batch]
};

// Returns the library's problem description, with contiguous [B, H, S, D] views. It refers to `tensors`; without them,
// it refers to the lengths of `one`.
Attention attention_of(const AttentionCase& one, const Tensors& tensors, std::uint64_t dropout_seed);
Attention attention_of(const AttentionCase& one);  // without tensors, for queries

// Execution without a kernel name and without workspace, for queries about a case.
inline Execution execution_of(const AttentionCase& one) {
  return {.device = one.device,
          .kernel = {},
          .threads = one.threads,
          .deterministic = one.deterministic || one.device == Device::cpu,
          .tf32 = one.tf32};
}

constexpr const char* name_of(Alignment alignment) {
  return alignment == Alignment::unset ? "unsaid" : alignment == Alignment::top_left ? "top_left" : "bottom_right";
}
constexpr const char* name_of(Device device) { return device == Device::cuda ? "cuda" : "cpu"; }

// Input tensors in host memory. Q, K, V, bias, sinks and, for a backward pass, dO are normal random numbers, rounded to
// their dtype. Dropout uses the same seed.
struct Inputs {
  Buffer q, k, v, d_o;
  Buffer bias, slopes, sinks, lengths;  // empty if absent
  Attention attention;
  ConstView d_o_view;
};
Inputs make_inputs(const AttentionCase& one, std::uint64_t seed);

// The "config" object of a result.
Json config_json(const AttentionCase& one);

// Returns flags of `strobe bench` that describe the same case on any machine, because they set every size.
std::vector<std::string> flags_of(const AttentionCase& one);

}  // namespace strobe::bench

namespace strobe {

// The field table (case_fields.cpp). Keys are flags of `strobe bench` and members of "config".
template <>
std::span<const Field<bench::AttentionCase>> fields<bench::AttentionCase>();

}  // namespace strobe
