// Collects the inner loops of ops/cpu/ in an Isa, the table of function pointers that the operations call.
#pragma once

#include "ops/cpu/activation.h"
#include "ops/cpu/adamw.h"
#include "ops/cpu/element.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/isa/row_matmul.h"
#include "ops/cpu/norm.h"
#include "ops/cpu/rope.h"
#include "ops/cpu/softmax.h"

namespace strobe::ops {
namespace {

template <class T>
constexpr Loops<T> make_loops() {
  return {.widen = widen_range<T>,
          .add = add_range<T>,
          .narrow = narrow_range<T>,
          .swiglu = swiglu_range<T>,
          .swiglu_backward = swiglu_range_backward<T>,
          .gelu = gelu_range<T>,
          .gelu_backward = gelu_range_backward<T>,
          .log_sum_exp = log_sum_exp<T>,
          .cross_entropy_gradient = cross_entropy_row_gradient<T>,
          .softmax = softmax_row<T>,
          .softmax_backward = softmax_row_backward<T>,
          .rms_norm = rms_norm_row<T>,
          .rms_norm_backward = rms_norm_row_backward<T>,
          .rms_norm_weight_backward = rms_norm_weight_backward<T>,
          .layer_norm = layer_norm_row<T>,
          .layer_norm_backward = layer_norm_row_backward<T>,
          .layer_norm_parameters_backward = layer_norm_parameters_backward<T>,
          .rope = rope_head<T>};
}

constexpr Isa make_isa(const char* name, int matmul_columns, void (*matmul)(const MatmulPanel&)) {
  return {.name = name,
          .matmul_columns = matmul_columns,
          .matmul = matmul,
          .matmul_row = matmul_row,
          .adamw = adamw_range,
          .fp32 = make_loops<float>(),
          .fp16 = make_loops<Fp16>(),
          .bf16 = make_loops<Bf16>()};
}

}  // namespace
}  // namespace strobe::ops
