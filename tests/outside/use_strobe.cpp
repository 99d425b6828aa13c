// Uses an installed Strobe from C++: a single key returns its value, kernels have names, and bad input throws
// strobe::Error.
#include <cmath>
#include <cstdio>

#include "strobe/attention.h"

int main() {
  const float q[4] = {1, 2, 3, 4}, k[4] = {4, 3, 2, 1}, v[4] = {5, 6, 7, 8};
  float o[4] = {};
  const strobe::DType fp32 = strobe::DType::fp32;
  strobe::Attention attention{.q = strobe::view_bhsd<const void>(q, fp32, {1, 1, 1, 4}),
                              .k = strobe::view_bhsd<const void>(k, fp32, {1, 1, 1, 4}),
                              .v = strobe::view_bhsd<const void>(v, fp32, {1, 1, 1, 4})};
  const strobe::ForwardOutputs outputs{.o = strobe::view_bhsd<void>(o, fp32, {1, 1, 1, 4})};
  strobe::forward(attention, outputs);
  for (int i = 0; i < 4; ++i) {
    if (!(std::abs(o[i] - v[i]) <= 2e-6f * v[i])) return 1;
  }

  if (strobe::kernel_names(strobe::Device::cpu).empty() || strobe::explain(attention, strobe::Pass::forward).empty()) {
    return 1;
  }

  attention.k.shape[3] = 3;
  try {
    strobe::forward(attention, outputs);
  } catch (const strobe::Error& error) {
    std::printf("C++: %s\n", error.what());
    return error.code() == strobe::ErrorCode::invalid_argument ? 0 : 1;
  }
  return 1;
}
