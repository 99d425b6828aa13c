// Builds from an engine the function table (Isa) that the driver calls. An engine is a struct of static members:
// Element, kCompute type of packed panels
//   kM, kN, kCols, kK, kP       geometry, see isa.h; kN is a multiple of kLanes and of kK
//   product<Width>(m, n, steps, c, accumulate)   computes C[kM][Width] (+)= M N; Width is kN or kCols
//   panel_matmuls<Width>(m, m_stride, n, steps, panels, c, accumulate)   instead of product: the same for several M
//                               panels. It may take one more argument, largest [kN], which it raises to the maximum of
//                               each column. The caller passes it only if Width = kN, steps > 0 and !accumulate.
// Engines with fp32 panels also have:
//   tile_to_m(tile, out)        fp32 tile [kM][kN] -> kN steps of an M panel (an N panel has the layout of a tile)
//   kSmallSumChunk              optional: value of Isa::small_sum_chunk; 8 by default
// Other engines convert vector v of kP adjacent tile rows (rows[i] of the arguments):
//   lanes_to_n(rows, t, v, out) to steps t .. t + kP - 1 of the N panel that starts at `out`
//   lanes_to_m(rows, r, v, out) to rows r .. r + kP - 1 of the kN steps of an M panel that start at `out`
//   rows_to_m(rows, r, out)     instead of lanes_to_m if kInterleaved (see Isa): all vectors at once, rows[v][i]
// Engines with split floats also have:
//   kTerms                      number of bf16 per element
//   kBoost                      factor that lanes_to_n and rows_to_m apply
//   kSumChunkFactor             factor on the length of partial sums; see panel_matmuls in scores.h
// Optional members: Narrow, an engine with fewer lanes and the same M panels, for Isa::narrow; pack_m, pack_mt, pack_n
// and pack_nt, either all four or none, which replace those of pack.h; begin() and end(), called around every use of
// the matmuls. Engines with software pipelining (forward_pipeline.h) also have kMatmulsOfChunk, add_matmuls,
// exponentiate, boosted_to_n, and the arguments `meanwhile` and `stored` of panel_matmuls.
#pragma once

#include <type_traits>

#include "attention/cpu/isa.h"
#include "attention/cpu/isa/backward_step.h"
#include "attention/cpu/isa/forward_pipeline.h"
#include "attention/cpu/isa/forward_step.h"
#include "attention/cpu/isa/pack.h"
#include "attention/cpu/isa/store.h"

namespace strobe::cpu {
namespace {

template <class Engine, int Width>
void matmul(const Matmul& a) {
  using Element = typename Engine::Element;
  const MatmulScope<Engine> scope;
  panel_matmuls<Engine, Width>(static_cast<const Element*>(a.m), a.m_stride, static_cast<const Element*>(a.n), a.steps,
                               a.panels, a.c, a.accumulate, a.sum_chunk);
}

template <class Engine>
struct PacksOf {
  using Type = GenericPack<Engine>;
};
template <class Engine>
requires requires { &Engine::pack_m; }
struct PacksOf<Engine> {
  using Type = Engine;
};

template <class Engine>
constexpr RowPanel make_row_panel() {
  return {Engine::kN, PacksOf<Engine>::Type::pack_n, forward_step<Engine>, store_lanes<Engine>};
}

template <class Engine>
constexpr Isa make_isa(const char* name) {
  Isa isa{};
  isa.name = name;
  isa.compute = Engine::kCompute;
  isa.element = static_cast<int>(sizeof(typename Engine::Element));
  isa.terms = 1;
  isa.interleaved = false;
  isa.boost = 1;
  // OpenBLAS has more exact kernels for small matmuls on x86-64. With longer partial sums, the kernel `standard` would
  // be more exact than flash2.
  isa.small_sum_chunk = 8;
  if constexpr (requires { Engine::kSmallSumChunk; }) isa.small_sum_chunk = Engine::kSmallSumChunk;
  if constexpr (requires { Engine::kTerms; }) isa.terms = Engine::kTerms;
  if constexpr (requires { Engine::kBoost; }) isa.boost = Engine::kBoost;
  if constexpr (requires { Engine::kInterleaved; }) isa.interleaved = Engine::kInterleaved;
  isa.m = Engine::kM;
  isa.n = Engine::kN;
  isa.cols = Engine::kCols;
  isa.k = Engine::kK;
  isa.p = Engine::kP;
  isa.fused = kFused;
  isa.step = kStep<Engine>;
  using Packs = typename PacksOf<Engine>::Type;
  isa.pack_m = Packs::pack_m;
  isa.pack_mt = Packs::pack_mt;
  isa.pack_n = Packs::pack_n;
  isa.pack_nt = Packs::pack_nt;
  isa.matmul_n = matmul<Engine, Engine::kN>;
  isa.matmul_cols = matmul<Engine, Engine::kCols>;
  isa.forward_step = forward_step<Engine>;
  isa.forward_pipelined = nullptr;
  if constexpr (requires { Engine::kMatmulsOfChunk; }) isa.forward_pipelined = forward_pipelined<Engine>;
  isa.backward_step = backward_step<Engine>;
  isa.store_lanes = store_lanes<Engine>;
  isa.store_cols = store_cols<Engine>;
  isa.dot_rows = dot_rows;
  if constexpr (requires { typename Engine::Narrow; }) {
    using Narrow = typename Engine::Narrow;
    static_assert(Narrow::kM == Engine::kM && Narrow::kK == Engine::kK && Narrow::kP == Engine::kP);
    static_assert(Narrow::kN < Engine::kN && Narrow::kCompute == Engine::kCompute);
    static_assert(std::is_same_v<typename Narrow::Element, typename Engine::Element>);
    static_assert(
        !requires { Engine::kMatmulsOfChunk; }, "software pipelining requires panels of one width");
    isa.narrow = make_row_panel<Narrow>();
  }
  return isa;
}

}  // namespace
}  // namespace strobe::cpu
