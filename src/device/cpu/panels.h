// Matmuls of panels per instruction set, for builds without OpenBLAS. cpu/isa/*.cpp define the tables, no_openblas.cpp
// chooses one.
#pragma once

#include <cstdint>

#include "core/matmul_panel.h"

namespace strobe::blas {

// c [m x n] = a b (+ c) in float64, with elements of a and b at any strides.
struct DoubleMatmul {
  const double *a, *b;
  std::int64_t a_row, a_step, b_step, b_col;  // elements between rows, steps and columns
  double* c;
  std::int64_t c_row;
  std::int64_t m, n, k;
  bool accumulate;
};

struct Panels {
  const char* name;  // as in STROBE_CPU_ISA
  int columns;       // of one panel
  void (*multiply)(const MatmulPanel&);
  void (*multiply_double)(const DoubleMatmul&);
};

}  // namespace strobe::blas
