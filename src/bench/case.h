// One configuration to measure: shapes, type, mask, passes; its tensors, its nominal FLOPs and its bytes.
#pragma once

#include <cstdint>
#include <string>

#include "bench/score_options.h"
#include "core/json.h"
#include "device/host/allocator.h"
#include "strobe/attention.h"

namespace strobe::bench {

enum class Passes { forward, backward, both };
constexpr bool has_forward(Passes passes) { return passes != Passes::backward; }
constexpr bool has_backward(Passes passes) { return passes != Passes::forward; }

// Whether a GPU's L2 cache is written over before each timed call.
enum class Cache { cold, hot };

struct Case {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t seq_q = 1;
  std::int64_t seq_k = 1;
  std::int64_t head_dim = 1;
  DType dtype = DType::fp16;
  bool tf32 = false;           // products may round fp32 elements
  bool deterministic = false;  // a GPU's backward repeats bit by bit, as a CPU's always does
  bool causal = false;
  Alignment alignment = Alignment::unsaid;
  Window window{};
  Passes passes = Passes::both;  // that are timed
  int threads = 1;
  Device device = Device::cpu;
  Cache cache = Cache::cold;
  ScoreOptions options{};
  bool scaled = false;  // the default configuration was made smaller for a CPU

  std::int64_t emb_dim() const { return heads * head_dim; }
  bool masked() const { return causal || window.left >= 0 || window.right >= 0; }
};

// "batch 1, 8 heads x 64, 1024 queries x 1024 keys, fp16, causal"
std::string describe(const Case& one);

// Keys that query row i of a sequence may use: [first, last).
struct Keys {
  std::int64_t first, last;
};
Keys visible_keys(const Case& one, std::int64_t batch, std::int64_t row);

// Rows of a sequence that may use key j: [first, last).
struct RowRange {
  std::int64_t first, last;
};
RowRange seeing_rows(const Case& one, std::int64_t batch, std::int64_t key);

// Bytes of all scores, masked or not, in the problem's type. Those that overflow are an Error(invalid_argument).
std::int64_t score_bytes(const Case& one);

// Scores that no mask and no length removes, of one head, over all of the batch. Refuses as score_bytes does.
std::int64_t unmasked_scores(const Case& one);

// Where row i stands among the keys is i + this.
std::int64_t diagonal_offset(const Case& one);

// The nominal count: 4 B H Sq Sk D forward, halved if causal (the exact count of unmasked scores where Sq != Sk, with a
// window or with lengths); 2.5 times that backward. The same for every implementation.
double forward_flops(const Case& one);
inline double backward_flops(const Case& one) { return 2.5 * forward_flops(one); }

// Bytes of the tensors. Sizes that overflow are an Error(invalid_argument).
struct TensorBytes {
  std::int64_t q, k, v, o, lse;                      // gradients are of the size of what they are the gradient of
  std::int64_t bias, dbias, slopes, sinks, lengths;  // 0 where there is none
  std::int64_t inputs() const { return q + k + v; }
  std::int64_t options() const { return bias + slopes + sinks + lengths; }
  std::int64_t forward() const { return inputs() + options() + o + lse; }
  std::int64_t backward_extra() const { return o + inputs() + dbias + sinks; }
};
TensorBytes tensor_bytes(const Case& one);

// Where the data of a case are, on its device.
struct Tensors {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  const void* bias = nullptr;
  const float* slopes = nullptr;          // [heads]
  const float* sinks = nullptr;           // [heads]
  const std::int32_t* lengths = nullptr;  // [batch]
};

// The problem for the library: contiguous [B, H, S, D] views. It refers to `one`.
Attention attention_of(const Case& one, const Tensors& tensors, std::uint64_t dropout_seed);
Attention attention_of(const Case& one);  // without data

// Where it runs, with the library's own choice of kernel and no workspace: for questions about it.
inline Execution execution_of(const Case& one) {
  return {.device = one.device,
          .kernel = {},
          .threads = one.threads,
          .deterministic = one.deterministic || one.device == Device::cpu,
          .tf32 = one.tf32};
}

constexpr const char* name_of(Device device) { return device == Device::cuda ? "cuda" : "cpu"; }

// Q, K, V and, for a backward pass, dO, in host memory: seeded, random normal, rounded to the dtype; bias and sinks
// likewise. The seed is dropout's too.
struct Inputs {
  Buffer q, k, v, d_o;
  Buffer bias, slopes, sinks, lengths;  // empty where there is none
  Attention attention;
  ConstView d_o_view;
};
Inputs make_inputs(const Case& one, std::uint64_t seed);

// "config" of a result.
Json config_json(const Case& one);

}  // namespace strobe::bench
