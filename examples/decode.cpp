// Decoding with a KV cache: each step appends one row of K and V per sequence and computes attention for one query. The
// cache has room for kCapacity rows per sequence. lengths_k contains the number of valid rows, so the caller need not
// copy or mask rows. The example compares each step with the same row of one causal forward over whole sequences.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "strobe/attention.h"

namespace {

constexpr std::int64_t kBatch = 2, kHeadsQ = 8, kHeadsKv = 2, kDim = 32, kCapacity = 64, kSteps = 48;

// A tensor [batch, heads, rows, dim] whose order in memory is [batch, rows, heads, dim].
struct Tensor {
  std::int64_t heads, rows;
  std::vector<float> data = std::vector<float>(static_cast<std::size_t>(kBatch * rows * heads * kDim));

  float* row(std::int64_t b, std::int64_t s) { return &data[static_cast<std::size_t>((b * rows + s) * heads * kDim)]; }
  strobe::View view() { return strobe::view_bshd<void>(data.data(), strobe::DType::fp32, {kBatch, heads, rows, kDim}); }
};

// Writes the values that a model would compute as a projection of token s of sequence b.
void project(float* row, std::int64_t heads, std::int64_t b, std::int64_t s, float frequency) {
  for (std::int64_t i = 0; i < heads * kDim; ++i) {
    row[i] = std::sin(frequency * static_cast<float>((b * kSteps + s) * heads * kDim + i));
  }
}

}  // namespace

int main() {
  using namespace strobe;
  Tensor all_q{kHeadsQ, kSteps}, q{kHeadsQ, 1}, k{kHeadsKv, kCapacity}, v{kHeadsKv, kCapacity};
  Tensor all_o{kHeadsQ, kSteps}, o{kHeadsQ, 1};
  std::vector<std::int32_t> lengths(kBatch, 0);
  std::vector<float> decoded;  // [step][batch][head][dim]

  const Attention step{.q = q.view(), .k = k.view(), .v = v.view(), .lengths_k = view_index(lengths.data(), kBatch)};
  for (std::int64_t s = 0; s < kSteps; ++s) {
    for (std::int64_t b = 0; b < kBatch; ++b) {
      project(all_q.row(b, s), kHeadsQ, b, s, 0.7f);
      std::copy_n(all_q.row(b, s), kHeadsQ * kDim, q.row(b, 0));
      project(k.row(b, s), kHeadsKv, b, s, 0.3f);
      project(v.row(b, s), kHeadsKv, b, s, 0.2f);
      ++lengths[static_cast<std::size_t>(b)];
    }
    forward(step, {.o = o.view()});
    decoded.insert(decoded.end(), o.data.begin(), o.data.end());
  }

  // The cache now contains both whole sequences. One causal forward over them must compute the same rows.
  const Attention prefill{.q = all_q.view(),
                          .k = k.view(),
                          .v = v.view(),
                          .causal = true,
                          .alignment = Alignment::top_left,
                          .lengths_k = view_index(lengths.data(), kBatch)};
  forward(prefill, {.o = all_o.view()});
  float worst = 0;
  for (std::int64_t s = 0; s < kSteps; ++s) {
    for (std::int64_t b = 0; b < kBatch; ++b) {
      const float* expected = all_o.row(b, s);
      const float* actual = &decoded[static_cast<std::size_t>((s * kBatch + b) * kHeadsQ * kDim)];
      for (std::int64_t i = 0; i < kHeadsQ * kDim; ++i) worst = std::max(worst, std::abs(actual[i] - expected[i]));
    }
  }
  std::printf("%d steps of %d sequences; largest difference from one causal forward: %.1e\n", static_cast<int>(kSteps),
              static_cast<int>(kBatch), static_cast<double>(worst));
  return worst <= 2e-6f ? 0 : 1;
}
