// Turns an engine into the function table that the driver calls. An engine is a struct of static members:
//   Element, kCompute           type of packed panels
//   kM, kN, kCols, kK, kP       geometry, see isa.h; kN is a multiple of kLanes and of kK
//   product<Width>(m, n, steps, c, accumulate)   C[kM][Width] (+)= M N, Width is kN or kCols
// fp32 engines:
//   tile_to_m(tile, out)        fp32 tile [kM][kN] -> kN steps of an M panel (as N panel, a tile serves as it is)
// bf16 engines, for vector v of kP neighbouring rows of a tile:
//   lanes_to_n(rows, v, out)    kP steps of an N panel that begin at `out`
//   lanes_to_m(rows, r, v, out) rows r .. r + kP - 1 of the kN steps of an M panel that begin at `out`
// Optionally: products<Width>(m, m_stride, n, steps, panels, c, accumulate) for a run of M panels; pack_m, pack_mt,
// pack_n, pack_nt where it packs faster than pack.h; begin(), end() around every use of products.
#pragma once

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/backward_step.h"
#include "attention/cpu/isa/forward_step.h"
#include "attention/cpu/isa/pack.h"
#include "attention/cpu/isa/store.h"

namespace strobe::cpu {
namespace {

template <class Engine, int Width>
void multiply(const Multiply& a) {
  using Element = typename Engine::Element;
  const ProductScope<Engine> scope;
  products<Engine, Width>(static_cast<const Element*>(a.m), a.m_stride, static_cast<const Element*>(a.n), a.steps,
                          a.panels, a.c, a.accumulate, kLongPiece);
}

template <class Engine>
constexpr Isa make_isa(const char* name) {
  using Generic = GenericPack<Engine>;
  Isa isa{};
  isa.name = name;
  isa.compute = Engine::kCompute;
  isa.m = Engine::kM;
  isa.n = Engine::kN;
  isa.cols = Engine::kCols;
  isa.k = Engine::kK;
  isa.p = Engine::kP;
  isa.fused = kFused;
  isa.step = kStep<Engine>;
  isa.pack_m = Generic::pack_m;
  isa.pack_mt = Generic::pack_mt;
  isa.pack_n = Generic::pack_n;
  isa.pack_nt = Generic::pack_nt;
  if constexpr (requires { &Engine::pack_m; }) isa.pack_m = Engine::pack_m;
  if constexpr (requires { &Engine::pack_mt; }) isa.pack_mt = Engine::pack_mt;
  if constexpr (requires { &Engine::pack_n; }) isa.pack_n = Engine::pack_n;
  if constexpr (requires { &Engine::pack_nt; }) isa.pack_nt = Engine::pack_nt;
  isa.multiply_n = multiply<Engine, Engine::kN>;
  isa.multiply_cols = multiply<Engine, Engine::kCols>;
  isa.forward_step = forward_step<Engine>;
  isa.backward_step = backward_step<Engine>;
  isa.store_lanes = store_lanes<Engine>;
  isa.store_cols = store_cols<Engine>;
  isa.dot_rows = dot_rows;
  return isa;
}

}  // namespace
}  // namespace strobe::cpu
