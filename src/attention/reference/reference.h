// The kernel `reference`: attention in float64, with which tests compare all other kernels. The kernel rounds its
// results to the problem's type. Tests call the functions below for results that are not rounded.
#pragma once

#include "attention/problem.h"

namespace strobe::reference {

// Computes o [B, Hq, Sq, Dv] and lse [B, Hq, Sq], contiguous arrays (a packed batch has B = 1 and Sq = all rows). lse
// may be null. The problem's own outputs are not written and may be null.
void forward64(const Problem& problem, double* o, double* lse);

struct Gradients64 {
  double* dq = nullptr;      // [B, Hq, Sq, D]
  double* dk = nullptr;      // [B, Hkv, Sk, D]
  double* dv = nullptr;      // [B, Hkv, Sk, Dv]
  double* dbias = nullptr;   // shape of bias; optional
  double* dsinks = nullptr;  // [Hq]; optional
};

// Computes contiguous gradients. Recomputes the softmax in float64 and ignores the problem's o_in and lse_in.
void backward64(const Problem& problem, const Gradients64& gradients);

}  // namespace strobe::reference
