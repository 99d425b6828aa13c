// Forward and backward as in a training step. Checks one value of each gradient against a finite difference of the loss
// sum(O * dO).
#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

#include "strobe/attention.h"

namespace {

using namespace strobe;

constexpr std::int64_t kHeads = 2, kRows = 40, kDim = 32;
constexpr std::array<std::int64_t, 4> kShape{1, kHeads, kRows, kDim};
constexpr std::size_t kCount = kHeads * kRows * kDim;

using Tensor = std::vector<float>;

Tensor wave(float frequency) {
  Tensor tensor(kCount);
  for (std::size_t i = 0; i < kCount; ++i) tensor[i] = std::sin(frequency * static_cast<float>(i));
  return tensor;
}

ConstView in(const Tensor& tensor) { return view_bhsd<const void>(tensor.data(), DType::fp32, kShape); }
View out(Tensor& tensor) { return view_bhsd<void>(tensor.data(), DType::fp32, kShape); }

struct Step {
  Tensor q = wave(0.37f), k = wave(0.91f), v = wave(0.53f), d_o = wave(0.71f);
  Tensor o = Tensor(kCount), lse = Tensor(kHeads * kRows);
  Tensor dq = Tensor(kCount), dk = Tensor(kCount), dv = Tensor(kCount);

  Attention attention() const { return {.q = in(q), .k = in(k), .v = in(v), .causal = true}; }

  double loss() {
    forward(attention(), {.o = out(o), .lse = lse.data()});
    double sum = 0;
    for (std::size_t i = 0; i < kCount; ++i) sum += static_cast<double>(o[i]) * d_o[i];
    return sum;
  }

  void gradients() {
    backward(attention(), {.o = in(o), .lse = lse.data(), .d_o = in(d_o)},
             {.dq = out(dq), .dk = out(dk), .dv = out(dv)});
  }

  // Returns true if the gradient of tensor[at] agrees with the finite difference of the loss.
  bool agrees(const char* name, Tensor& tensor, std::size_t at, float gradient) {
    constexpr float kStep = 1.0f / 64;
    const float before = tensor[at];
    tensor[at] = before + kStep;
    const double above = loss();
    tensor[at] = before - kStep;
    const double below = loss();
    tensor[at] = before;
    const double slope = (above - below) / (2 * kStep);
    std::printf("%s[%zu] %10.6f, finite difference %10.6f\n", name, at, gradient, slope);
    return std::abs(slope - gradient) < 1e-3;
  }
};

}  // namespace

int main() {
  Step step;
  std::printf("loss %.6f\n", step.loss());
  step.gradients();
  const std::size_t at = kCount - 5;
  const bool fine = step.agrees("dQ", step.q, at, step.dq[at]) && step.agrees("dK", step.k, 7, step.dk[7]) &&
                    step.agrees("dV", step.v, 7, step.dv[7]);
  return fine ? 0 : 1;
}
