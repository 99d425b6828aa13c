// Shapes, masks and nominal counts of a case, and its random data.
#include "bench/case.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/counted.h"
#include "core/divide.h"
#include "core/fail.h"
#include "core/half.h"
#include "core/philox.h"
#include "device/host/thread_pool.h"

namespace strobe::bench {
namespace {

std::int64_t checked_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) {
      fail(ErrorCode::invalid_argument, "a tensor of {} bytes does not fit 63 bits",
           fmt::join(factors.begin(), factors.end(), " x "));
    }
  }
  return product;
}

// Normal random numbers. Element i of a stream depends only on (seed, stream, i), not on the number of threads.
struct Normal {
  DType dtype;
  std::uint64_t seed;
  std::uint32_t stream;
};
void fill_normal(void* data, std::int64_t count, const Normal& normal, int threads) {
  constexpr std::int64_t kBlock = 1 << 14;
  parallel_for(threads, ceil_div(count, kBlock), [&](int, std::int64_t block) {
    const std::int64_t end = std::min(count, (block + 1) * kBlock);
    for (std::int64_t i = block * kBlock; i < end; i += 4) {
      const auto words =
          philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), normal.stream, 0}, normal.seed);
      float values[4];
      for (int pair = 0; pair < 2; ++pair) {
        const float radius = std::sqrt(-2 * std::log((static_cast<float>(words[2 * pair] >> 8) + 0.5f) * 0x1p-24f));
        const float angle = 2 * std::numbers::pi_v<float> * static_cast<float>(words[2 * pair + 1] >> 8) * 0x1p-24f;
        values[2 * pair] = radius * std::cos(angle);
        values[2 * pair + 1] = radius * std::sin(angle);
      }
      for (std::int64_t lane = 0; lane < 4 && i + lane < end; ++lane) {
        store_element(data, normal.dtype, i + lane, values[lane]);
      }
    }
  });
}

}  // namespace

std::array<std::int64_t, 4> bias_shape(const AttentionCase& one) {
  const std::string& full = one.options.bias;
  if (full.empty()) return {};
  return {full[0] == '1' ? 1 : one.batch, full[1] == '1' ? 1 : one.heads, full[2] == '1' ? 1 : one.seqlen_q,
          one.seqlen_k};
}

std::int64_t rows_of(const AttentionCase& one, std::int64_t batch) {
  const std::vector<std::int32_t>& lengths = one.options.lengths;
  return lengths.empty() ? one.seqlen_q : lengths[static_cast<std::size_t>(batch)];
}

std::int64_t keys_of(const AttentionCase& one, std::int64_t batch) {
  const std::vector<std::int32_t>& lengths = one.options.lengths;
  return lengths.empty() ? one.seqlen_k : lengths[static_cast<std::size_t>(batch)];
}

std::string describe_options(const ScoreOptions& options) {
  std::string text;
  if (options.softcap != 0) text += fmt::format(", softcap {}", options.softcap);
  if (options.alibi) text += ", ALiBi";
  if (!options.bias.empty()) {
    text += fmt::format(", bias {}{}", options.bias, options.bias_gradient ? " with gradient" : "");
  }
  if (options.sinks) text += ", sinks";
  if (options.dropout != 0) text += fmt::format(", dropout {}", options.dropout);
  if (!options.lengths.empty()) text += fmt::format(", lengths {}", fmt::join(options.lengths, ","));
  return text;
}

void fit_lengths(AttentionCase& one) {
  std::vector<std::int32_t>& lengths = one.options.lengths;
  if (lengths.empty()) return;
  lengths.resize(static_cast<std::size_t>(one.batch));
  for (std::int32_t& length : lengths) length = static_cast<std::int32_t>(std::min<std::int64_t>(length, one.seqlen_q));
}

std::string describe(const AttentionCase& one) {
  std::string text = fmt::format("batch {}, {} x {}", one.batch, counted(one.heads, "head"), one.head_dim);
  if (one.kv_heads != one.heads) text += fmt::format(" ({})", counted(one.kv_heads, "KV head"));
  text += one.seqlen_q == one.seqlen_k ? fmt::format(", sequence {}", one.seqlen_q)
                                       : fmt::format(", {} queries x {} keys", one.seqlen_q, one.seqlen_k);
  text += fmt::format(", {}{}", strobe::name_of(one.dtype), one.tf32 ? " (tf32)" : "");
  if (one.deterministic) text += ", deterministic";
  if (one.causal) text += ", causal";
  if (one.masked() && one.alignment != Alignment::unset) text += fmt::format(" {}", name_of(one.alignment));
  if (one.window.left >= 0 || one.window.right >= 0) {
    text += fmt::format(", window {}:{}", one.window.left, one.window.right);
  }
  return text + describe_options(one.options);
}

// A padded batch has as many rows as keys in each sequence, so both alignments are the same.
std::int64_t diagonal_offset(const AttentionCase& one) {
  return one.alignment == Alignment::bottom_right ? one.seqlen_k - one.seqlen_q : 0;
}

Keys visible_keys(const AttentionCase& one, std::int64_t batch, std::int64_t row) {
  if (row >= rows_of(one, batch)) return {0, 0};
  const std::int64_t diagonal = row + diagonal_offset(one);
  std::int64_t first = 0;
  std::int64_t last = keys_of(one, batch);
  if (one.causal) last = std::min(last, diagonal + 1);
  if (one.window.left >= 0) first = std::max(first, diagonal - one.window.left);
  if (one.window.right >= 0) last = std::min(last, diagonal + one.window.right + 1);
  return {first, std::max(first, last)};
}

RowRange attending_rows(const AttentionCase& one, std::int64_t batch, std::int64_t key) {
  if (key >= keys_of(one, batch)) return {0, 0};
  const std::int64_t diagonal = key - diagonal_offset(one);  // the row whose diagonal is at this key
  std::int64_t first = 0;
  std::int64_t last = rows_of(one, batch);
  if (one.causal) first = std::max(first, diagonal);
  if (one.window.right >= 0) first = std::max(first, diagonal - one.window.right);
  if (one.window.left >= 0) last = std::min(last, diagonal + one.window.left + 1);
  return {first, std::max(first, last)};
}

std::int64_t score_bytes(const AttentionCase& one) {
  std::int64_t bytes = static_cast<std::int64_t>(size_of(one.dtype));
  for (const std::int64_t size : {one.batch, one.heads, one.seqlen_q, one.seqlen_k}) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) {
      fail(ErrorCode::invalid_argument, "the scores of batch {}, {} heads, {} queries and {} keys do not fit 63 bits",
           one.batch, one.heads, one.seqlen_q, one.seqlen_k);
    }
  }
  return bytes;
}

std::int64_t unmasked_scores(const AttentionCase& one) {
  if (score_bytes(one) == 0) return 0;
  const std::vector<std::int32_t>& lengths = one.options.lengths;
  std::int64_t scores = 0;
  for (std::int64_t batch = 0; batch < (lengths.empty() ? 1 : one.batch); ++batch) {
    if (!one.masked()) scores += rows_of(one, batch) * keys_of(one, batch);
    for (std::int64_t row = 0; row < rows_of(one, batch) && one.masked(); ++row) {
      const Keys keys = visible_keys(one, batch, row);
      scores += keys.last - keys.first;
    }
  }
  return lengths.empty() ? one.batch * scores : scores;
}

double forward_flops(const AttentionCase& one) {
  const double per_score = 4.0 * static_cast<double>(one.heads) * static_cast<double>(one.head_dim);
  const bool windowed = one.window.left >= 0 || one.window.right >= 0;
  if (one.causal && !windowed && one.options.lengths.empty() && one.seqlen_q == one.seqlen_k) {
    const double squares = static_cast<double>(one.batch) * static_cast<double>(one.seqlen_q);
    return per_score * squares * static_cast<double>(one.seqlen_k) / 2;
  }
  return per_score * static_cast<double>(unmasked_scores(one));
}

TensorBytes tensor_bytes(const AttentionCase& one) {
  const auto element = static_cast<std::int64_t>(size_of(one.dtype));
  const std::int64_t q = checked_product({one.batch, one.heads, one.seqlen_q, one.head_dim, element});
  const std::int64_t k = checked_product({one.batch, one.kv_heads, one.seqlen_k, one.head_dim, element});
  const auto [b, h, rows, keys] = bias_shape(one);
  const std::int64_t bias = checked_product({b, h, rows, keys});
  return {.q = q,
          .k = k,
          .v = k,
          .o = q,
          .lse = checked_product({one.batch, one.heads, one.seqlen_q, 4}),
          .bias = checked_product({bias, element}),
          .dbias = one.options.bias_gradient ? checked_product({bias, 4}) : 0,
          .slopes = one.options.alibi ? 4 * one.heads : 0,
          .sinks = one.options.sinks ? 4 * one.heads : 0,
          .lengths = 4 * static_cast<std::int64_t>(one.options.lengths.size())};
}

Attention attention_of(const AttentionCase& one, const Tensors& tensors, std::uint64_t dropout_seed) {
  Attention attention;
  attention.q = view_bhsd(tensors.q, one.dtype, {one.batch, one.heads, one.seqlen_q, one.head_dim});
  attention.k = view_bhsd(tensors.k, one.dtype, {one.batch, one.kv_heads, one.seqlen_k, one.head_dim});
  attention.v = view_bhsd(tensors.v, one.dtype, {one.batch, one.kv_heads, one.seqlen_k, one.head_dim});
  attention.causal = one.causal;
  attention.window = one.window;
  attention.alignment = one.alignment;
  attention.softcap = static_cast<float>(one.options.softcap);
  attention.alibi_slopes = tensors.slopes;
  if (!one.options.bias.empty()) attention.bias = view_bhsd(tensors.bias, one.dtype, bias_shape(one));
  attention.sinks = tensors.sinks;
  attention.dropout = {static_cast<float>(one.options.dropout), dropout_seed};
  if (tensors.lengths) attention.lengths_q = attention.lengths_k = view_index(tensors.lengths, one.batch);
  return attention;
}

Attention attention_of(const AttentionCase& one) {
  static constexpr float kPlaceholder = 0;  // valid pointer for queries, which do not read slopes and sinks
  Tensors tensors;
  if (one.options.alibi) tensors.slopes = &kPlaceholder;
  if (one.options.sinks) tensors.sinks = &kPlaceholder;
  if (!one.options.lengths.empty()) tensors.lengths = one.options.lengths.data();
  return attention_of(one, tensors, 0);
}

Inputs make_inputs(const AttentionCase& one, std::uint64_t seed) {
  const TensorBytes bytes = tensor_bytes(one);
  const auto make = [&](std::int64_t size, DType dtype, std::uint32_t stream) {
    Buffer buffer(static_cast<std::size_t>(size));
    const std::int64_t count = size / static_cast<std::int64_t>(size_of(dtype));
    fill_normal(buffer.data(), count, {dtype, seed, stream}, one.threads);
    return buffer;
  };
  Inputs inputs;
  inputs.q = make(bytes.q, one.dtype, 0);
  inputs.k = make(bytes.k, one.dtype, 1);
  inputs.v = make(bytes.v, one.dtype, 2);
  if (has_backward(one.passes)) inputs.d_o = make(bytes.o, one.dtype, 3);
  inputs.bias = make(bytes.bias, one.dtype, 4);
  inputs.sinks = make(bytes.sinks, DType::fp32, 5);
  inputs.slopes = Buffer(static_cast<std::size_t>(bytes.slopes));
  for (std::int64_t head = 0; head < bytes.slopes / 4; ++head) {
    const double part = static_cast<double>(head + 1) / static_cast<double>(one.heads);
    inputs.slopes.as<float>()[head] = static_cast<float>(std::exp2(-8 * part));
  }
  inputs.lengths = Buffer(static_cast<std::size_t>(bytes.lengths));
  std::copy(one.options.lengths.begin(), one.options.lengths.end(), inputs.lengths.as<std::int32_t>());
  inputs.attention = attention_of(one,
                                  {.q = inputs.q.data(),
                                   .k = inputs.k.data(),
                                   .v = inputs.v.data(),
                                   .bias = inputs.bias.data(),
                                   .slopes = inputs.slopes.as<float>(),
                                   .sinks = inputs.sinks.as<float>(),
                                   .lengths = inputs.lengths.as<std::int32_t>()},
                                  seed);
  inputs.d_o_view = view_bhsd(static_cast<const void*>(inputs.d_o.data()), one.dtype,
                              {one.batch, one.heads, one.seqlen_q, one.head_dim});
  return inputs;
}

}  // namespace strobe::bench
