// Predictions of bench/sweep/prediction.h as a table.
#include "app/progress.h"
#include "cli/sweep/progress.h"

#include <fmt/format.h>

#include <map>

#include "app/terminal.h"
#include "bench/sweep/prediction.h"
#include "core/counted.h"
#include "core/short_number.h"
#include "core/text_table.h"
#include "measure/system_info.h"

namespace strobe::cli {
namespace {

// Product rate of each type of the plan; the one that is assumed where it was not measured.
class ProductRates {
 public:
  explicit ProductRates(bool quick) : depth_(quick ? bench::Depth::none : bench::Depth::brief) {}

  double of(const bench::Case& one) {
    const auto [place, is_new] = rates_.try_emplace(one.dtype);
    if (is_new) {
      show_progress("measure the machine's ceilings");
      place->second =
          bench::ceilings_for({&one, 1}, depth_).matmul(one.dtype).value_or(bench::assumed_matmul_rate(one.device));
      show_progress("");
    }
    return place->second;
  }

 private:
  bench::Depth depth_;
  std::map<DType, double> rates_;
};

std::string note_on(const bench::Case& one, const bench::PredictedMemory& memory, const RunFlags& how, bool known) {
  if (known) return "has its row";
  if (!memory.refusal.empty()) return "unsupported: " + memory.refusal;
  const std::int64_t free =
      how.run.memory_limit.value_or(one.device == Device::cpu ? read_memory_info().available : INT64_MAX);
  return memory.bytes && *memory.bytes > free ? "will not fit in memory" : "";
}

}  // namespace

std::string dry_run_text(const SweepPlan& plan,
                         const std::function<bool(const bench::Problem&, const std::string& name)>& is_known) {
  TextTable table;
  table.add_column("cell");
  table.add_column("problem", TextTable::Align::left);
  table.add_column("implementation", TextTable::Align::left);
  table.add_column("call ms");
  table.add_column("cell s");
  table.add_column("memory MiB");
  table.add_column("note", TextTable::Align::left);
  ProductRates rates(plan.how.quick);
  const StoppingRule& rule = plan.how.run.rule;
  std::size_t cells = 0, left = 0;
  double seconds = 0;
  for (const bench::Problem& problem : plan.problems) {
    for (const std::string& name : problem.implementations) {
      const bench::PredictedMemory memory = bench::predicted_memory(problem.one, name);
      const double rate = rates.of(problem.one);
      const bool known = is_known(problem, name);
      const double cell = bench::predicted_seconds(problem.one, name, rule, rate);
      const std::string note = note_on(problem.one, memory, plan.how, known);
      if (!known) ++left;
      if (note.empty()) seconds += cell;
      table.add_row({std::to_string(++cells), bench::describe(problem), name,
                     short_number(1e3 * bench::predicted_call(problem.one, name, rate)), fmt::format("{:.1f}", cell),
                     memory.bytes ? fmt::format("{:.1f}", static_cast<double>(*memory.bytes) / (1 << 20)) : "-", note});
    }
  }
  const std::string of_all = plan.cells_of_all == cells ? "" : fmt::format(" of the grid's {}", plan.cells_of_all);
  return table.text() + fmt::format("{}{}, {} to measure, about {} in all; nothing was measured or written\n",
                                    counted(cells, plan.unit()), of_all, left, duration_text(seconds));
}

}  // namespace strobe::cli
