// Interface between the operations (ops/*.cpp), which know shapes, types and threads, and their inner loops, which are
// compiled once per instruction set (isa/*.cpp). The interface consists of plain data and function pointers. No inline
// function is compiled on both sides. Otherwise the linker could pick a copy built for AVX-512, which fails on a
// machine without it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/matmul_panel.h"
#include "ops/cpu/element.h"
#include "ops/execution_context.h"

namespace strobe::ops {

struct Trained;
struct Update;

// A matmul of a single row: y [out] = x W^T (+ addend).
struct RowMatmul {
  const float *x, *weight;  // [in], [out, in]
  std::ptrdiff_t stride;    // elements between rows of the weight
  const float* addend;      // [out]; may be y; null: none
  float* y;
  std::int64_t in, out;
};

// Inner loops for one element type. The headers of ops/cpu/ define and document them.
template <class T>
struct Loops {
  void (*widen)(const T* x, float* y, std::int64_t count);
  void (*add)(const T* x, float* y, std::int64_t count);
  void (*narrow)(const float* x, T* y, Into into, std::int64_t count);
  void (*swiglu)(const T* a, const T* b, T* y, std::int64_t count);
  void (*swiglu_backward)(const T* a, const T* b, const T* dy, T* da, T* db, std::int64_t count);
  void (*gelu)(const T* x, T* y, std::int64_t count);
  void (*gelu_backward)(const T* x, const T* dy, T* dx, std::int64_t count);
  float (*log_sum_exp)(const T* logits, std::int64_t count);
  void (*cross_entropy_gradient)(T* logits, std::int64_t count, std::int64_t target, float log_sum, float scale);
  void (*softmax)(T* scores, std::int64_t count);
  void (*softmax_backward)(const T* probabilities, T* gradient, std::int64_t count);
  float (*rms_norm)(const T* x, const float* weight, T* y, std::int64_t width, float eps);
  void (*rms_norm_backward)(const T* x, const float* weight, float inverse, const T* dy, T* dx, Into into,
                            std::int64_t width);
  void (*rms_norm_weight_backward)(const T* x, const float* inverse, const T* dy, float* dweight, std::int64_t rows,
                                   std::int64_t width, std::int64_t first, std::int64_t last);
  void (*layer_norm)(const T* x, const float* weight, const float* bias, T* y, float* statistics, std::int64_t width,
                     float eps);
  void (*layer_norm_backward)(const T* x, const float* weight, const float* statistics, const T* dy, T* dx, Into into,
                              std::int64_t width);
  void (*layer_norm_parameters_backward)(const T* x, const float* statistics, const T* dy, float* dweight, float* dbias,
                                         std::int64_t count);
  void (*rope)(T* x, const float* table, std::int64_t dim, float sign);
};

struct Isa {
  const char* name;    // value of STROBE_CPU_ISA
  int matmul_columns;  // columns per panel of `matmul`; 0 if the table has no `matmul` and OpenBLAS is used
  void (*matmul)(const MatmulPanel&);
  void (*matmul_row)(const RowMatmul&);
  void (*adamw)(const Update&, const Trained&, std::int64_t first, std::int64_t last);
  Loops<float> fp32;
  Loops<Fp16> fp16;
  Loops<Bf16> bf16;

  template <class T>
  const Loops<T>& of() const {
    if constexpr (std::is_same_v<T, float>) {
      return fp32;
    } else if constexpr (std::is_same_v<T, Fp16>) {
      return fp16;
    } else {
      return bf16;
    }
  }
};

// Returns the table for this machine's best instruction set or, if STROBE_CPU_ISA is set, for the one that it names.
// Throws Error(unsupported) if that one is not available.
const Isa& chosen_isa();

}  // namespace strobe::ops
