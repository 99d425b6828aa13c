// The kernel `reference`: attention in float64, the oracle of every test. The kernel rounds to the problem's type;
// tests call the functions below for unrounded results.
#pragma once

#include "attention/problem.h"

namespace strobe::reference {

// All arrays are contiguous with the shapes of the problem's views: o [B, Hq, Sq, Dv], lse [B, Hq, Sq] (a packed batch
// has B = 1 and Sq = all rows). The problem's own outputs are not touched and may be null.
void forward64(const Problem& problem, double* o, double* lse);

struct Gradients64 {
  double* dq = nullptr;      // [B, Hq, Sq, D]
  double* dk = nullptr;      // [B, Hkv, Sk, D]
  double* dv = nullptr;      // [B, Hkv, Sk, Dv]
  double* dbias = nullptr;   // shape of bias; optional
  double* dsinks = nullptr;  // [Hq]; optional
};

// Reads only q, k, v and dO. Recomputes O and LSE in float64 and ignores the problem's o_in and lse_in.
void backward64(const Problem& problem, const Gradients64& gradients);

}  // namespace strobe::reference
