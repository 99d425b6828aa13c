// Describes an attention problem by 4-D views and scalar options, and converts it to strobe_attention of the C API.
// core.cpp, torch.cpp and jax.cpp use it.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "strobe/strobe.h"

namespace strobe_python {

// Input tensors. An absent tensor has a null pointer.
struct Inputs {
  strobe_const_view q{}, k{}, v{};
  strobe_const_view bias{};
  strobe_mask_view mask{};
  const float* sinks = nullptr;
  const float* alibi_slopes = nullptr;
  std::int64_t alibi_batch_stride = 0;  // 0: slopes [Hq], else [B, Hq]
  strobe_index_view first_keys{};
  strobe_index_view lengths_q{}, lengths_k{}, cu_seqlens_q{}, cu_seqlens_k{};
};

struct Options {
  double scale = NAN;  // NaN: 1 / sqrt(D)
  double softcap = 0;
  double dropout_p = 0;
  std::uint64_t seed = 0;
  const std::uint64_t* seed_data = nullptr;  // if not null, points to the seed in the memory of the device
  std::int64_t causal = 0;
  std::int64_t align = STROBE_ALIGNMENT_UNSAID;
  std::int64_t window_left = -1, window_right = -1;
  std::int64_t max_seqlen_q = 0, max_seqlen_k = 0;
};

// An error that the library returned: its status, and its message as what().
class Refusal : public std::runtime_error {
 public:
  Refusal(strobe_status status, const char* text) : std::runtime_error(text), status_(status) {}
  strobe_status status() const { return status_; }

 private:
  strobe_status status_;
};

inline void check(strobe_status status) {
  if (status != STROBE_OK) throw Refusal(status, strobe_last_error());
}

inline strobe_attention attention_of(const Inputs& inputs, const Options& options) {
  strobe_attention attention;
  check(strobe_attention_init(&attention, sizeof attention));
  attention.q = inputs.q;
  attention.k = inputs.k;
  attention.v = inputs.v;
  attention.bias = inputs.bias;
  attention.mask = inputs.mask;
  attention.alibi_batch_stride = inputs.alibi_batch_stride;
  attention.first_keys = inputs.first_keys;
  attention.sinks = inputs.sinks;
  attention.alibi_slopes = inputs.alibi_slopes;
  attention.lengths_q = inputs.lengths_q;
  attention.lengths_k = inputs.lengths_k;
  attention.cu_seqlens_q = inputs.cu_seqlens_q;
  attention.cu_seqlens_k = inputs.cu_seqlens_k;
  attention.scale_given = std::isnan(options.scale) ? 0 : 1;
  attention.scale = static_cast<float>(options.scale);
  attention.softcap = static_cast<float>(options.softcap);
  attention.dropout_p = static_cast<float>(options.dropout_p);
  attention.dropout_seed = options.seed;
  attention.dropout_seed_data = options.seed_data;
  attention.causal = options.causal != 0;
  attention.alignment = static_cast<std::int32_t>(options.align);
  attention.window_left = options.window_left;
  attention.window_right = options.window_right;
  attention.max_seqlen_q = options.max_seqlen_q;
  attention.max_seqlen_k = options.max_seqlen_k;
  return attention;
}

// Computes the strides of a dense tensor whose dimensions have the same order in memory as those of a view.
inline void strides_like(const strobe_const_view& like, const std::int64_t (&shape)[4], std::int64_t (&stride)[4]) {
  int order[4] = {0, 1, 2, 3};
  for (int i = 1; i < 3; ++i) {  // a stable insertion sort by decreasing stride; the last dimension stays innermost
    for (int j = i; j > 0 && like.stride[order[j]] > like.stride[order[j - 1]]; --j) {
      const int other = order[j];
      order[j] = order[j - 1];
      order[j - 1] = other;
    }
  }
  std::int64_t next = 1;
  for (int i = 3; i >= 0; --i) {
    stride[order[i]] = next;
    next *= shape[order[i]] > 0 ? shape[order[i]] : 1;
  }
}

}  // namespace strobe_python
