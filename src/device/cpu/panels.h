// The matmul functions of one instruction set, for builds without OpenBLAS. Each cpu/isa/*.cpp defines one table;
// no_openblas.cpp chooses one of them.
#pragma once

#include <cstdint>

#include "core/matmul_panel.h"

namespace strobe::blas {

// c [m x n] = a [m x k] b [k x n] (+ c) in float64, with any strides in a and b.
struct DoubleMatmul {
  const double *a, *b;
  std::int64_t a_row, a_step, b_step, b_col;  // strides in elements: of a along m and k, of b along k and n
  double* c;
  std::int64_t c_row;  // elements between rows of c
  std::int64_t m, n, k;
  bool accumulate;
};

struct Panels {
  const char* name;  // as in STROBE_CPU_ISA
  int columns;       // width of a panel
  void (*multiply)(const MatmulPanel&);
  void (*multiply_double)(const DoubleMatmul&);
};

}  // namespace strobe::blas
