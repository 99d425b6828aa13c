// Draws the inputs of a test case.
#include "support/data.h"

#include <fmt/format.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "support/random.h"

namespace strobe::test {
namespace {

// Returns the first row of each sequence in a packed batch, followed by the end of the last sequence.
std::vector<std::int64_t> offsets_of(const std::vector<std::int64_t>& lengths, std::int64_t longest) {
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t length : lengths) {
    if (length > longest) {
      throw std::logic_error(fmt::format("a packed sequence of {} rows exceeds the maximum of {}", length, longest));
    }
    offsets.push_back(offsets.back() + length);
  }
  return offsets;
}

float draw_value(const Case& c, Random& random) {
  return c.values == Values::integer ? static_cast<float>(random.between(-2, 2)) : random.normal();
}

// Returns the lowest finite bias, which users write instead of -inf. In fp16 it is -30000, so adding a score cannot
// overflow.
float lowest_bias(const Case& c) {
  if (c.dtype == DType::fp16 || c.bias_dtype == DType::fp16) return -30000.f;
  return c.dtype == DType::bf16 || c.bias_dtype == DType::bf16 ? -0x1.fep127f : -FLT_MAX;
}

float draw_bias(const Case& c, std::int64_t i, std::int64_t j, Random& random) {
  const float value = random.normal();
  switch (c.bias_values) {
    case BiasValues::normal: return value;
    case BiasValues::some_minus_inf: return random.chance(0.2) ? -kInf : value;
    case BiasValues::rows_minus_inf: return i % 3 == 1 ? -kInf : value;
    case BiasValues::lowest: return j % 3 == 1 ? lowest_bias(c) : value;
  }
  return value;
}

// Fills the rows of every sequence of a tensor. Rows past a sequence's length remain NaN, unless an expanded tensor
// stores them in the same memory as rows before the length.
template <class Length, class Begin>
void fill_rows(const Data& data, Tensor& tensor, Length length, Begin begin, float factor, Random& random,
               bool of_keys = false) {
  const Case& c = data.c;
  for_each(tensor.view.shape, [&](auto b, auto h, auto s, auto e) { tensor.set(b, h, s, e, kNan); });
  for (std::int64_t b = 0; b < c.batch; ++b) {
    const Shape part = {1, tensor.view.shape[1], length(b), tensor.view.shape[3]};
    for_each(part, [&](auto, auto h, auto s, auto e) {
      const float value = draw_value(c, random) * factor;
      if (!of_keys || s >= c.first_key(b)) tensor.set(data.view_batch(b), h, begin(b) + s, e, value);
    });
  }
}

void fill_bias(Data& data, Random& random) {
  const Case& c = data.c;
  Tensor& bias = data.bias;
  for_each(bias.view.shape, [&](auto b, auto h, auto i, auto j) { bias.set(b, h, i, j, kNan); });
  for (std::int64_t b = 0; b < c.batch; ++b) {
    if (c.seqlen_q(b) == 0) continue;  // no row uses the keys of this sequence
    const Shape part = {1, bias.view.shape[1], c.bias_shape.rows ? c.seqlen_q(b) : 1, c.seqlen_k(b)};
    for_each(part, [&](auto, auto h, auto i, auto j) {
      bias.set(c.bias_shape.batch ? b : 0, h, i, j, draw_bias(c, i, j, random));
    });
  }
}

// Each row of the mask allows most keys, one key or none. Bytes of unused pairs of row and key are 2, which also means
// allowed.
void fill_mask(Data& data, Random& random) {
  const Shape dims = data.c.mask_dims();
  data.mask.assign(static_cast<std::size_t>(count_of(dims)), 2);
  const MaskView view = data.mask_view();
  for_each({dims[0], dims[1], dims[2], 1}, [&](auto b, auto h, auto i, auto) {
    const double kind = random.uniform();
    const std::int64_t only = random.between(0, std::max<std::int64_t>(0, dims[3] - 1));
    for (std::int64_t j = 0; j < dims[3]; ++j) {
      const bool allowed = kind < 0.1 ? false : kind < 0.2 ? j == only : random.chance(0.7);
      const std::int64_t at = b * view.stride[0] + h * view.stride[1] + i * view.stride[2] + j * view.stride[3];
      data.mask[static_cast<std::size_t>(at)] = allowed ? static_cast<unsigned char>(random.between(1, 255)) : 0;
    }
  });
}

}  // namespace

Data::Data(const Case& description) : c(description) {
  Random random(c.seed);
  if (c.fused) {
    const Shape shape = {c.packed() ? 1 : c.batch, 0, c.total_q(), c.d};
    auto parts = make_fused(c.dtype, shape, {c.heads_q, c.heads_kv, c.heads_kv});
    q = parts[0], k = parts[1], v = parts[2];
  } else {
    q = make_tensor({c.dtype, shape_q(), c.layout_q, c.misalign});
    k = make_tensor({c.dtype, shape_k(), c.layout_k, c.misalign});
    v = make_tensor({c.dtype, shape_v(), c.layout_v, c.misalign});
  }
  d_o = make_tensor({c.dtype, shape_o(), c.layout_do, c.misalign});

  if (c.lengths != Lengths::none) {
    const auto indices_q = c.packed() ? offsets_of(c.lengths_q, c.sq) : c.lengths_q;
    const auto indices_k = c.packed() ? offsets_of(c.lengths_k, c.sk) : c.lengths_k;
    index_q64 = indices_q, index_k64 = indices_k;
    index_q32.assign(indices_q.begin(), indices_q.end());
    index_k32.assign(indices_k.begin(), indices_k.end());
  }

  // Large values: scores have a standard deviation of about 60, so one key has nearly all the probability.
  const float factor_q = c.values == Values::large ? 60.f : 1.f;
  const auto seqlen_q = [&](std::int64_t b) { return c.seqlen_q(b); };
  const auto seqlen_k = [&](std::int64_t b) { return c.seqlen_k(b); };
  const auto row_q = [&](std::int64_t b) { return begin_q(b); };
  const auto row_k = [&](std::int64_t b) { return begin_k(b); };
  fill_rows(*this, q, seqlen_q, row_q, factor_q, random);
  fill_rows(*this, k, seqlen_k, row_k, 1, random, true);
  fill_rows(*this, v, seqlen_k, row_k, 1, random, true);
  fill_rows(*this, d_o, seqlen_q, row_q, 1, random);
  if (c.bias) {
    bias = make_tensor({c.bias_dtype, c.bias_dims(), c.layout_bias, c.misalign});
    fill_bias(*this, random);
  }
  for (std::int64_t h = 0; h < c.heads_q; ++h) {
    if (c.alibi) alibi_slopes.push_back(std::exp2(-8.f * static_cast<float>(h + 1) / static_cast<float>(c.heads_q)));
    if (c.sinks) sinks.push_back(random.normal());
  }
  for (std::int64_t i = c.heads_q; c.alibi && c.alibi_batch && i < c.batch * c.heads_q; ++i) {
    alibi_slopes.push_back(random.uniform() * 0.5f);
  }
  if (c.mask) fill_mask(*this, random);
  if (c.d_lse) {
    d_lse = make_tensor({DType::fp32, shape_lse(), c.layout_lse, c.misalign});
    fill_rows(*this, d_lse, seqlen_q, row_q, 1, random);
  }
  dropout_seed = c.seed * 0x9e3779b97f4a7c15u;
  first64 = c.first_keys;
  first32.assign(first64.begin(), first64.end());
  alibi_slopes.shrink_to_fit();
  sinks.shrink_to_fit();
  remember();
}

std::int64_t Data::begin_q(std::int64_t b) const { return c.packed() ? index_q64[static_cast<std::size_t>(b)] : 0; }
std::int64_t Data::begin_k(std::int64_t b) const { return c.packed() ? index_k64[static_cast<std::size_t>(b)] : 0; }

Shape Data::shape_q() const { return {c.packed() ? 1 : c.batch, c.heads_q, c.total_q(), c.d}; }
Shape Data::shape_k() const { return {c.packed() ? 1 : c.batch, c.heads_kv, c.total_k(), c.d}; }
Shape Data::shape_v() const { return {c.packed() ? 1 : c.batch, c.heads_kv, c.total_k(), c.dv}; }
Shape Data::shape_o() const { return {c.packed() ? 1 : c.batch, c.heads_q, c.total_q(), c.dv}; }

Shape Data::shape_lse() const { return {c.packed() ? 1 : c.batch, c.heads_q, c.total_q(), 1}; }

MaskView Data::mask_view() const {
  const Shape dims = c.mask_dims();
  MaskView view = view_mask(mask.data(), dims);
  if (c.mask_transposed) view.stride[2] = 1, view.stride[3] = dims[2];
  return view;
}

bool Data::mask_allows(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
  if (!c.mask) return true;
  const MaskView view = mask_view();
  const std::int64_t index[] = {b, h, i, j};
  std::int64_t at = 0;
  for (std::size_t axis = 0; axis < 4; ++axis) at += view.shape[axis] == 1 ? 0 : index[axis] * view.stride[axis];
  return mask[static_cast<std::size_t>(at)] != 0;
}

void Data::complete(Problem& problem) const {
  problem.d_o = d_o.view;
  problem.dropout.seed = dropout_seed;
  if (!c.d_lse) return;
  problem.d_lse = static_cast<const float*>(d_lse.view.data);
  std::copy_n(d_lse.view.stride.begin(), 3, problem.d_lse_stride.begin());
}

Attention Data::attention() const {
  Attention attention{.q = q.view, .k = k.view, .v = v.view};
  attention.scale = c.scale;
  attention.causal = c.causal;
  attention.window = c.window;
  attention.alignment = c.alignment;
  attention.softcap = c.softcap;
  if (c.alibi) attention.alibi_slopes = alibi_slopes.data();
  if (c.bias) attention.bias = bias.view;
  if (c.sinks) attention.sinks = sinks.data();
  attention.dropout = {.p = c.dropout, .seed = dropout_seed};
  if (c.seed_data) attention.dropout.seed = 0, attention.dropout.seed_data = &dropout_seed;
  if (c.alibi && c.alibi_batch) attention.alibi_batch_stride = c.heads_q;
  if (c.mask) attention.mask = mask_view();
  const auto view = [&](const auto& narrow, const auto& wide) {
    const auto count = static_cast<std::int64_t>(wide.size());
    return c.index_bits == 64 ? view_index(wide.data(), count) : view_index(narrow.data(), count);
  };
  if (!c.first_keys.empty()) attention.first_keys = view(first32, first64);
  if (c.packed()) {
    attention.cu_seqlens_q = view(index_q32, index_q64);
    attention.cu_seqlens_k = view(index_k32, index_k64);
  } else {
    if (!index_q64.empty()) attention.lengths_q = view(index_q32, index_q64);
    if (!index_k64.empty()) attention.lengths_k = view(index_k32, index_k64);
  }
  return attention;
}

void Data::remember() {
  for (Tensor* tensor : {&q, &k, &v, &d_o, &bias, &d_lse}) {
    if (tensor->buffer) tensor->buffer->remember();
  }
}

std::string Data::changed() const {
  for (const Tensor* tensor : {&q, &k, &v, &d_o, &bias, &d_lse}) {
    if (!tensor->buffer) continue;
    if (std::string what = tensor->buffer->changed(); !what.empty()) return what;
  }
  return {};
}

}  // namespace strobe::test
