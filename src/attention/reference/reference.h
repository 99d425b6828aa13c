// The kernel `reference`: the definition of attention in float64, the oracle of every test.
// The kernel rounds to the problem's type; tests call the functions below for the unrounded results.
#pragma once

#include "attention/problem.h"

namespace strobe::reference {

// All arrays contiguous, of the shapes of the problem's views: o [B, Hq, Sq, Dv], lse [B, Hq, Sq] (a packed batch has
// B = 1 and Sq = all rows). The problem's own outputs are not touched and need not be there.
void forward64(const Problem& problem, double* o, double* lse);

struct Gradients64 {
  double* dq = nullptr;      // [B, Hq, Sq, D]
  double* dk = nullptr;      // [B, Hkv, Sk, D]
  double* dv = nullptr;      // [B, Hkv, Sk, Dv]
  double* dbias = nullptr;   // of the shape of bias; optional
  double* dsinks = nullptr;  // [Hq]; optional
};

// From q, k, v and dO alone: O and LSE are recomputed in float64, whatever the problem's o_in and lse_in say.
void backward64(const Problem& problem, const Gradients64& gradients);

}  // namespace strobe::reference
