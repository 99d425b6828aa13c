// Shapes, masks and counts of a configuration, and its random data.
#include "bench/case.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/fail.h"
#include "core/half.h"
#include "core/philox.h"
#include "device/host/thread_pool.h"

namespace strobe::bench {
namespace {

std::int64_t offset_of(const Case& one) { return one.alignment == Alignment::bottom_right ? one.seq_k - one.seq_q : 0; }

const char* name_of(Alignment alignment) {
  switch (alignment) {
    case Alignment::unsaid: return "unsaid";
    case Alignment::top_left: return "top_left";
    case Alignment::bottom_right: return "bottom_right";
  }
  return "unknown";
}

std::int64_t checked_product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) {
      fail(ErrorCode::invalid_argument, "bench: a tensor of {} bytes does not fit 63 bits",
           fmt::join(factors.begin(), factors.end(), " x "));
    }
  }
  return product;
}

// Element i of a stream of normal numbers depends on (seed, stream, i) alone, whatever the number of threads.
void fill_normal(void* data, const Case& one, std::int64_t count, std::uint64_t seed, std::uint32_t stream) {
  constexpr std::int64_t kBlock = 1 << 14;
  parallel_for(one.threads, (count + kBlock - 1) / kBlock, [&](int, std::int64_t block) {
    const std::int64_t end = std::min(count, (block + 1) * kBlock);
    for (std::int64_t i = block * kBlock; i < end; i += 4) {
      const auto words = philox({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), stream, 0}, seed);
      float normal[4];
      for (int pair = 0; pair < 2; ++pair) {
        const float radius = std::sqrt(-2 * std::log((static_cast<float>(words[2 * pair] >> 8) + 0.5f) * 0x1p-24f));
        const float angle = 2 * std::numbers::pi_v<float> * static_cast<float>(words[2 * pair + 1] >> 8) * 0x1p-24f;
        normal[2 * pair] = radius * std::cos(angle);
        normal[2 * pair + 1] = radius * std::sin(angle);
      }
      for (std::int64_t lane = 0; lane < 4 && i + lane < end; ++lane) {
        store_element(data, one.dtype, i + lane, normal[lane]);
      }
    }
  });
}

}  // namespace

std::string describe(const Case& one) {
  std::string text = fmt::format("batch {}, {} heads x {}", one.batch, one.heads, one.head_dim);
  if (one.kv_heads != one.heads) text += fmt::format(" ({} KV heads)", one.kv_heads);
  text += one.seq_q == one.seq_k ? fmt::format(", sequence {}", one.seq_q)
                                 : fmt::format(", {} queries x {} keys", one.seq_q, one.seq_k);
  text += fmt::format(", {}", strobe::name_of(one.dtype));
  if (one.causal) text += ", causal";
  if (one.masked() && one.alignment != Alignment::unsaid) text += fmt::format(" {}", name_of(one.alignment));
  if (one.window.left >= 0 || one.window.right >= 0) {
    text += fmt::format(", window {}:{}", one.window.left, one.window.right);
  }
  return text;
}

Keys visible_keys(const Case& one, std::int64_t row) {
  const std::int64_t diagonal = row + offset_of(one);
  std::int64_t first = 0;
  std::int64_t last = one.seq_k;
  if (one.causal) last = std::min(last, diagonal + 1);
  if (one.window.left >= 0) first = std::max(first, diagonal - one.window.left);
  if (one.window.right >= 0) last = std::min(last, diagonal + one.window.right + 1);
  return {first, std::max(first, last)};
}

RowRange seeing_rows(const Case& one, std::int64_t key) {
  const std::int64_t diagonal = key - offset_of(one);  // the row that stands at this key
  std::int64_t first = 0;
  std::int64_t last = one.seq_q;
  if (one.causal) first = std::max(first, diagonal);
  if (one.window.right >= 0) first = std::max(first, diagonal - one.window.right);
  if (one.window.left >= 0) last = std::min(last, diagonal + one.window.left + 1);
  return {first, std::max(first, last)};
}

std::int64_t unmasked_scores(const Case& one) {
  if (!one.masked()) return one.seq_q * one.seq_k;
  std::int64_t scores = 0;
  for (std::int64_t row = 0; row < one.seq_q; ++row) {
    const Keys keys = visible_keys(one, row);
    scores += keys.last - keys.first;
  }
  return scores;
}

double forward_flops(const Case& one) {
  const double per_score = 4.0 * static_cast<double>(one.batch * one.heads) * static_cast<double>(one.head_dim);
  const bool windowed = one.window.left >= 0 || one.window.right >= 0;
  if (one.causal && !windowed && one.seq_q == one.seq_k) {
    return per_score * static_cast<double>(one.seq_q) * static_cast<double>(one.seq_k) / 2;
  }
  return per_score * static_cast<double>(unmasked_scores(one));
}

TensorBytes tensor_bytes(const Case& one) {
  const auto element = static_cast<std::int64_t>(size_of(one.dtype));
  const std::int64_t q = checked_product({one.batch, one.heads, one.seq_q, one.head_dim, element});
  const std::int64_t k = checked_product({one.batch, one.kv_heads, one.seq_k, one.head_dim, element});
  return {.q = q, .k = k, .v = k, .o = q, .lse = checked_product({one.batch, one.heads, one.seq_q, 4})};
}

Attention attention_of(const Case& one, const void* q, const void* k, const void* v) {
  Attention attention;
  attention.q = view_bhsd(q, one.dtype, {one.batch, one.heads, one.seq_q, one.head_dim});
  attention.k = view_bhsd(k, one.dtype, {one.batch, one.kv_heads, one.seq_k, one.head_dim});
  attention.v = view_bhsd(v, one.dtype, {one.batch, one.kv_heads, one.seq_k, one.head_dim});
  attention.causal = one.causal;
  attention.window = one.window;
  attention.alignment = one.alignment;
  return attention;
}

Inputs make_inputs(const Case& one, std::uint64_t seed) {
  const TensorBytes bytes = tensor_bytes(one);
  const auto element = static_cast<std::int64_t>(size_of(one.dtype));
  const auto make = [&](std::int64_t size, std::uint32_t stream) {
    Buffer buffer(static_cast<std::size_t>(size));
    fill_normal(buffer.data(), one, size / element, seed, stream);
    return buffer;
  };
  Inputs inputs;
  inputs.q = make(bytes.q, 0);
  inputs.k = make(bytes.k, 1);
  inputs.v = make(bytes.v, 2);
  if (has_backward(one.passes)) inputs.d_o = make(bytes.o, 3);
  inputs.attention = attention_of(one, inputs.q.data(), inputs.k.data(), inputs.v.data());
  inputs.d_o_view = view_bhsd(static_cast<const void*>(inputs.d_o.data()), one.dtype,
                              {one.batch, one.heads, one.seq_q, one.head_dim});
  return inputs;
}

Json config_json(const Case& one) {
  const char* cache = one.device == Device::cpu ? "as left by the call before"
                      : one.cache == Cache::hot ? "hot"
                                                : "cold";
  const char* passes = one.passes == Passes::both ? "both" : has_forward(one.passes) ? "forward" : "backward";
  return Json::object({{"batch_size", one.batch},
                       {"seq_len", one.seq_q},
                       {"num_heads", one.heads},
                       {"emb_dim", one.emb_dim()},
                       {"causal", one.causal},
                       {"dtype", strobe::name_of(one.dtype)},
                       {"device", name_of(one.device)},
                       {"threads", one.threads},
                       {"head_dim", one.head_dim},
                       {"num_kv_heads", one.kv_heads},
                       {"seq_len_k", one.seq_k},
                       {"align", name_of(one.alignment)},
                       {"window", Json::array({one.window.left, one.window.right})},
                       {"pass", passes},
                       {"cache", cache},
                       {"layout", "bhsd"}});
}

}  // namespace strobe::bench
