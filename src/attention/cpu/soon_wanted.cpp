// Lines a step may fetch are counted so that the last one is asked for when the last scores become weights.
#include "attention/cpu/soon_wanted.h"

#include <algorithm>

namespace strobe::cpu {
namespace {

constexpr std::int64_t kLine = 64;  // bytes

bool all_alike(const Problem& problem, const Extent& extent) {
  const auto in_a_row = [&](const auto& view) { return view.stride[2] == problem.d; };
  return problem.group == 1 && extent.k_length == extent.q_length && problem.dv == problem.d && in_a_row(problem.q) &&
         in_a_row(problem.k) && in_a_row(problem.v) && in_a_row(problem.o);
}

}  // namespace

std::optional<Soon> soon_wanted(const Problem& problem, const Plan& plan, std::int64_t unit_index) {
  const Unit unit = unit_at(problem, unit_index);
  const std::int64_t rows = unit.extent.q_length;
  if (!plan.isa->forward_flow || plan.row_blocks > 1 || rows == 0 || !all_alike(problem, unit.extent)) return {};
  const auto begin = [&](const auto& view, const Unit& of, std::int64_t row) {
    return problem.rows(view, of.b, of.h, row).data;
  };
  const char* const o = begin(problem.o, unit, unit.extent.q_begin);
  const std::int64_t lines = ceil_div(rows * problem.d * static_cast<std::int64_t>(size_of(problem.dtype)), kLine);
  const std::int64_t times = std::max<std::int64_t>(rows * rows / kScoresOfFetch, 1);
  Soon soon{{o, o, o, o}, 0, ceil_div(lines, times) * kLine, (lines - 1) * kLine};
  if (unit_index + plan.threads < plan.units) {
    const Unit next = unit_at(problem, unit_index + plan.threads);
    soon.tensors[1] = begin(problem.q, next, next.extent.q_begin);
    soon.tensors[2] = begin(problem.k, next, next.extent.k_begin);
    soon.tensors[3] = begin(problem.v, next, next.extent.k_begin);
  }
  return soon;
}

}  // namespace strobe::cpu
