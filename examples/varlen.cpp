// Variable length: three sequences packed without padding, with a bottom-right causal mask, a window and the caller's
// workspace. Compares the result with the same sequences computed one by one.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

#include "strobe/attention.h"

int main() {
  using namespace strobe;
  constexpr std::int64_t kHeads = 3, kDim = 24;
  const std::vector<std::int32_t> starts{0, 5, 105, 142};  // sequence lengths 5, 100 and 37
  const std::int64_t total = starts.back();
  std::vector<float> q(static_cast<std::size_t>(total * kHeads * kDim)), k(q.size()), v(q.size());
  std::vector<float> o(q.size()), single(q.size());
  for (std::size_t i = 0; i < q.size(); ++i) {
    q[i] = std::sin(0.11f * static_cast<float>(i));
    k[i] = std::cos(0.23f * static_cast<float>(i));
    v[i] = std::sin(0.31f * static_cast<float>(i));
  }

  // Return views of rows [first, first + count) of a packed tensor [total, H, D].
  const auto in = [&](const std::vector<float>& tensor, std::int64_t first, std::int64_t count) {
    const void* data = tensor.data() + first * kHeads * kDim;
    return view_bshd(data, DType::fp32, {1, kHeads, count, kDim});
  };
  const auto out = [&](std::vector<float>& tensor, std::int64_t first, std::int64_t count) {
    void* data = tensor.data() + first * kHeads * kDim;
    return view_bshd(data, DType::fp32, {1, kHeads, count, kDim});
  };
  const auto problem = [&](std::int64_t first, std::int64_t count) {
    return Attention{.q = in(q, first, count),
                     .k = in(k, first, count),
                     .v = in(v, first, count),
                     .causal = true,
                     .window = {.left = 15, .right = -1},
                     .alignment = Alignment::bottom_right};
  };

  Attention packed = problem(0, total);
  packed.cu_seqlens_q = packed.cu_seqlens_k = view_index(starts.data(), static_cast<std::int64_t>(starts.size()));
  const std::size_t bytes = workspace_bytes(packed, Pass::forward);
  std::vector<char> memory(bytes + 64);
  void* workspace = memory.data();
  std::size_t space = memory.size();
  std::align(64, bytes, workspace, space);
  forward(packed, {.o = out(o, 0, total)}, {.workspace = workspace, .workspace_bytes = bytes});

  for (std::size_t s = 0; s + 1 < starts.size(); ++s) {
    const std::int64_t count = starts[s + 1] - starts[s];
    forward(problem(starts[s], count), {.o = out(single, starts[s], count)});
  }
  float apart = 0;
  for (std::size_t i = 0; i < o.size(); ++i) apart = std::max(apart, std::abs(o[i] - single[i]));
  std::printf("3 packed sequences, %d rows, %zu bytes of workspace; largest difference from single calls: %g\n",
              static_cast<int>(total), bytes, apart);
  for (const Verdict& verdict : explain(packed, Pass::forward)) {
    std::printf("%-10s%-10s%s\n", verdict.kernel.c_str(), verdict.chosen ? "chosen" : "supported",
                verdict.configuration.c_str());
  }
  return apart < 1e-6f ? 0 : 1;
}
