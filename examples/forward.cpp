// Causal attention with grouped heads (GQA): 4 query heads share 2 KV heads. In memory the tensors are [sequence, head,
// head dimension], as a projection writes them, so they need not be copied or transposed.
#include <cmath>
#include <cstdio>
#include <vector>

#include "strobe/attention.h"

int main() {
  using namespace strobe;
  constexpr std::int64_t kBatch = 1, kHeadsQ = 4, kHeadsKv = 2, kRows = 6, kDim = 16;
  std::vector<float> q(kRows * kHeadsQ * kDim), k(kRows * kHeadsKv * kDim), v(k.size()), o(q.size());
  std::vector<float> lse(kHeadsQ * kRows);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = std::sin(0.7f * static_cast<float>(i));
  for (std::size_t i = 0; i < k.size(); ++i) {
    k[i] = std::cos(0.3f * static_cast<float>(i));
    v[i] = std::sin(0.2f * static_cast<float>(i) + 1.0f);
  }

  const void *q_data = q.data(), *k_data = k.data(), *v_data = v.data();
  const Attention attention{.q = view_bshd(q_data, DType::fp32, {kBatch, kHeadsQ, kRows, kDim}),
                            .k = view_bshd(k_data, DType::fp32, {kBatch, kHeadsKv, kRows, kDim}),
                            .v = view_bshd(v_data, DType::fp32, {kBatch, kHeadsKv, kRows, kDim}),
                            .causal = true};
  void* o_data = o.data();
  try {
    forward(attention, {.o = view_bshd(o_data, DType::fp32, {kBatch, kHeadsQ, kRows, kDim}), .lse = lse.data()});
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }

  std::printf("head  row       lse      o[0]      o[1]\n");
  for (std::int64_t h = 0; h < kHeadsQ; ++h) {
    for (std::int64_t i = 0; i < kRows; i += kRows - 1) {
      const float* row = &o[static_cast<std::size_t>((i * kHeadsQ + h) * kDim)];
      std::printf("%4d %4d %9.4f %9.4f %9.4f\n", static_cast<int>(h), static_cast<int>(i),
                  lse[static_cast<std::size_t>(h * kRows + i)], row[0], row[1]);
    }
  }

  // With a causal mask the first row uses only the first key, so its output is exactly that key's value.
  for (std::int64_t h = 0; h < kHeadsQ; ++h) {
    for (std::int64_t c = 0; c < kDim; ++c) {
      const std::int64_t kv = h / (kHeadsQ / kHeadsKv);
      if (o[static_cast<std::size_t>(h * kDim + c)] != v[static_cast<std::size_t>(kv * kDim + c)]) return 1;
    }
  }
  std::printf("row 0 of every head is the first row of V\n");
  return 0;
}
