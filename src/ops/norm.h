// RMSNorm and LayerNorm of the rows of a matrix, computed in fp32, and their gradients. Called by lm/models/.
#pragma once

#include <cstdint>

#include "ops/execution_context.h"
#include "strobe/dtype.h"

namespace strobe::ops {

// y = x / sqrt(mean(x^2) + eps) * weight.
struct RmsNorm {
  std::int64_t rows = 0, width = 0;
  float eps = 1e-5f;
  DType dtype = DType::fp32;  // type of x, y and their gradients; weight and inverse are fp32
};

// x, y: [rows, width]; weight: [width]. Also writes inverse [rows] = 1 / sqrt(mean(x^2) + eps) for the backward pass.
void rms_norm(const ExecutionContext& execution, const RmsNorm& norm, const void* x, const float* weight, void* y,
              float* inverse);

struct RmsNormGradients {
  const void* x = nullptr;
  const float *weight = nullptr, *inverse = nullptr;
  const void* dy = nullptr;  // [rows, width]
  void* dx = nullptr;        // [rows, width]
  Into dx_into = Into::set;
  float* dweight = nullptr;  // [width]
  Into dweight_into = Into::sum;
};

void rms_norm_backward(const ExecutionContext& execution, const RmsNorm& norm, const RmsNormGradients& tensors);

// --- LayerNorm -------------------------------------------------------------------------------------------------------

// y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias.
struct LayerNorm {
  std::int64_t rows = 0, width = 0;
  float eps = 1e-5f;
  DType dtype = DType::fp32;  // type of x, y and their gradients; weight, bias and statistics are fp32
};

// x, y: [rows, width]; weight, bias: [width].
struct LayerNormTensors {
  const void* x = nullptr;
  const float *weight = nullptr, *bias = nullptr;
  void* y = nullptr;
  float* statistics = nullptr;  // output for the backward pass, [rows, 2]: mean(x), 1 / sqrt(variance(x) + eps)
};

void layer_norm(const ExecutionContext& execution, const LayerNorm& norm, const LayerNormTensors& tensors);

struct LayerNormGradients {
  const void* x = nullptr;
  const float *weight = nullptr, *statistics = nullptr;
  const void* dy = nullptr;  // [rows, width]
  void* dx = nullptr;        // [rows, width]
  Into dx_into = Into::set;
  float *dweight = nullptr, *dbias = nullptr;  // [width]
  Into parameters_into = Into::sum;
};

void layer_norm_backward(const ExecutionContext& execution, const LayerNorm& norm, const LayerNormGradients& tensors);

}  // namespace strobe::ops
