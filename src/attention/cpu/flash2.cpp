// flash2 on the CPU as a row of the kernel list.
#include "attention/cpu/flash2.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "attention/kernel_list.h"
#include "device/host/instruction_sets.h"
#include "device/host/thread_pool.h"

namespace strobe {

namespace {

// It does everything else, on every instruction set that there is.
std::string refusal(const Problem& problem) {
  if (problem.d > kMostTiledDim || problem.dv > kMostTiledDim) {
    return fmt::format("head dimensions {} and {}; it takes up to {}", problem.d, problem.dv, kMostTiledDim);
  }
  return instruction_set_refusal(problem.cpu_isa.c_str());
}

std::string configuration(const Problem& problem) {
  const cpu::Plan plan = cpu::make_plan(problem);
  const std::string parts = plan.isa->parts > 1 ? fmt::format(" in {} bf16 parts", plan.isa->parts) : "";
  std::string text =
      fmt::format("{}, {} panels{}, micro-tile {}x{}, blocks of {} rows x {} keys", plan.isa->name,
                  name_of(plan.isa->compute), parts, plan.isa->m, plan.isa->n, plan.block_rows, plan.block_keys);
  if (plan.splits > 1) text += fmt::format(", keys split {} ways", plan.splits);
  return text;
}

std::size_t workspace_bytes(const Problem& problem) {
  const auto bytes = [&](const cpu::Plan& plan) {
    return problem.pass == Pass::forward ? cpu::forward_workspace(problem, plan)
                                         : cpu::backward_workspace(problem, plan);
  };
  return std::max(bytes(cpu::make_plan(problem)), bytes(cpu::make_plan(problem, cpu::Parts::refused)));
}

// Panels in parts do not hold all values, which shows as they are packed; the other panels do.
void run(const Problem& problem, void* workspace) {
  cpu::clear_padding(problem);
  for (const cpu::Parts parts : {cpu::Parts::allowed, cpu::Parts::refused}) {
    const cpu::Plan plan = cpu::make_plan(problem, parts);
    const bool held = problem.pass == Pass::forward ? cpu::forward(problem, plan, workspace)
                                                    : cpu::backward(problem, plan, workspace);
    if (held) return;
  }
}

}  // namespace

const Kernel kFlash2Cpu{"flash2", Device::cpu, refusal, configuration, workspace_bytes, run};

void cpu::clear_padding(const Problem& problem) {
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
      clear(problem.dq, b, problem.heads_q, extent.q_length, problem.max_q);
      clear(problem.dk, b, problem.heads_kv, extent.k_length, problem.max_k);
      clear(problem.dv_out, b, problem.heads_kv, extent.k_length, problem.max_k);
      return;
    }
    clear(problem.o, b, problem.heads_q, extent.q_length, problem.max_q);
    for (std::int64_t h = 0; problem.lse && h < problem.heads_q; ++h) {
      float* lse = problem.lse + problem.lse_index(b, h, 0, 0);
      std::fill(lse + extent.q_length, lse + problem.max_q, -std::numeric_limits<float>::infinity());
    }
  });
}

}  // namespace strobe
