// Plans and launches the kernel flash2 on the CPU. kernel_list.cpp lists plan_flash2().
#include "attention/cpu/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "attention/kernel_list.h"
#include "device/host/instruction_sets.h"
#include "device/host/thread_pool.h"

namespace strobe {

namespace {

// `plan` may use split floats, which cannot represent all values. If packing meets a value that they cannot represent,
// the call is repeated with `whole`, a plan without split floats.
struct Flash2Launch {
  cpu::Plan plan, whole;

  std::string text(const Problem&) const {
    const cpu::Isa& isa = *plan.isa;
    const std::string terms = isa.terms > 1 ? fmt::format(" split into {} bf16", isa.terms) : "";
    std::string text = fmt::format("{}, {} panels{}, micro-tile {}x{}, blocks of {} rows x {} keys", isa.name,
                                   name_of(isa.compute), terms, isa.m, isa.n, plan.block_rows, plan.block_keys);
    if (plan.splits > 1) text += fmt::format(", keys split {} ways", plan.splits);
    return text;
  }

  void run(const Problem& problem, void* workspace) const {
    cpu::clear_padding(problem);
    const auto pass = problem.pass == Pass::forward ? cpu::forward : cpu::backward;
    if (!pass(problem, plan, workspace)) pass(problem, whole, workspace);
  }
};

}  // namespace

Plan plan_flash2(const Problem& problem) {
  if (problem.d > kMostTiledDim || problem.dv > kMostTiledDim) {
    return Plan(fmt::format("head dimensions {} and {}; it takes up to {}", problem.d, problem.dv, kMostTiledDim));
  }
  if (std::string reason = instruction_set_refusal(problem.cpu_isa.c_str()); !reason.empty()) {
    return Plan(std::move(reason));
  }
  const Flash2Launch launch{cpu::make_plan(problem), cpu::make_plan(problem, cpu::Terms::refused)};
  const auto bytes = problem.pass == Pass::forward ? cpu::forward_workspace : cpu::backward_workspace;
  return Plan(launch, std::max(bytes(problem, launch.plan), bytes(problem, launch.whole)));
}

namespace {

// Sets dK and dV of the skipped keys (Extent::k_skipped) of each sequence to zero.
void clear_skipped_keys(const Problem& problem) {
  parallel_for(problem.threads, problem.batch * problem.heads_kv, [&](int, std::int64_t task) {
    const std::int64_t b = task / problem.heads_kv, h = task % problem.heads_kv;
    const Extent extent = problem.extent(b);
    for (const View& view : {problem.dk, problem.dv_out}) {
      const Rows rows = problem.rows(view, b, h, extent.k_begin - extent.k_skipped);
      const auto bytes = static_cast<std::size_t>(view.shape[3]) * size_of(view.dtype);
      for (std::int64_t j = 0; j < extent.k_skipped; ++j) std::fill_n(const_cast<char*>(rows[j]), bytes, char{0});
    }
  });
}

}  // namespace

void cpu::clear_padding(const Problem& problem) {
  if (problem.first_keys && problem.pass == Pass::backward) clear_skipped_keys(problem);
  if (problem.packed || (!problem.lengths_q && !problem.lengths_k)) return;
  const auto clear = [&](const View& view, std::int64_t b, std::int64_t heads, std::int64_t from, std::int64_t to) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const Rows rows = problem.rows(view, b, h, 0);
      const auto bytes = static_cast<std::size_t>(view.shape[3]) * size_of(view.dtype);
      for (std::int64_t i = from; i < to; ++i) std::fill_n(const_cast<char*>(rows[i]), bytes, char{0});
    }
  };
  parallel_for(problem.threads, problem.batch, [&](int, std::int64_t b) {
    const Extent extent = problem.extent(b);
    if (problem.pass == Pass::backward) {
      clear(problem.dq, b, problem.heads_q, extent.seqlen_q, problem.max_seqlen_q);
      const std::int64_t k_end = extent.k_begin + extent.seqlen_k;
      clear(problem.dk, b, problem.heads_kv, k_end, problem.max_seqlen_k);
      clear(problem.dv_out, b, problem.heads_kv, k_end, problem.max_seqlen_k);
      return;
    }
    clear(problem.o, b, problem.heads_q, extent.seqlen_q, problem.max_seqlen_q);
    for (std::int64_t h = 0; problem.lse && h < problem.heads_q; ++h) {
      for (std::int64_t i = extent.seqlen_q; i < problem.max_seqlen_q; ++i) {
        problem.lse[problem.lse_index(b, h, 0, i)] = -std::numeric_limits<float>::infinity();
      }
    }
  });
}

}  // namespace strobe
