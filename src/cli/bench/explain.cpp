// Implements `strobe explain`: prints which kernels would run and why, without running them.
#include <fmt/format.h>

#include <algorithm>

#include "app/help.h"
#include "app/terminal.h"
#include "bench/ceilings.h"
#include "bench/memory_model.h"
#include "cli/bench/options.h"
#include "cli/verbs.h"
#include "core/fail.h"
#include "core/short_number.h"
#include "results/table.h"

namespace strobe::cli {
namespace {

constexpr const char* kExplainIntroduction =
    "usage: strobe explain [--flag value ...]\n\n"
    "Prints the problem; for each kernel whether it supports the problem or why not, its tiles and workspace; FLOPs "
    "and "
    "bytes;\n"
    "each implementation's predicted memory item by item; and the best time that this machine allows. Accepts all "
    "flags\n"
    "of bench; these have an effect:\n\n";

// Returns the help of the flags that have an effect here. The other flags of bench control measuring.
std::string help_on_flags(const OptionTable& table) {
  CaseOptions unused;
  OptionTable shown;
  shown.begin_group("problem");
  add_configuration_options(shown, unused);
  for (const Option& option : table.options()) {
    for (const char* name : {"device", "threads", "cells", "quick"}) {
      if (option.name == name) shown.add(option);
    }
  }
  return shown.help();
}

std::string mebibytes(std::int64_t bytes) {
  const double value = static_cast<double>(bytes) / (1 << 20);
  const bool whole = bytes % (1 << 20) == 0;
  return fmt::format("{:.{}f}", value, whole || value >= 100 ? 0 : value >= 1 ? 1 : 3);
}

std::string flops_text(double flops) {
  return flops >= 1e12 ? fmt::format("{:.3g} TFLOP", flops * 1e-12) : fmt::format("{:.3g} GFLOP", flops * 1e-9);
}

std::string verdicts_text(const bench::AttentionCase& one, Pass pass) {
  Table table{.columns = {left(pass == Pass::forward ? "forward" : "backward"), left("verdict"), "workspace MiB",
                          left("configuration")}};
  const Attention attention = bench::attention_of(one);
  for (const Verdict& verdict : explain(attention, pass, bench::execution_of(one))) {
    const bool fine = verdict.refusal.empty();
    table.cells.push_back({verdict.kernel,
                           verdict.chosen ? "chosen"
                           : fine         ? "supported"
                                          : "refuses: " + verdict.refusal,
                           fine ? mebibytes(static_cast<std::int64_t>(verdict.workspace_bytes)) : "-",
                           verdict.configuration});
  }
  return table.text();
}

// Returns the smallest number of bytes that must move between memory and the processor.
std::int64_t least_traffic(const bench::AttentionCase& one, Pass pass) {
  const bench::TensorBytes bytes = bench::tensor_bytes(one);
  return pass == Pass::forward ? bytes.forward() : bytes.forward() + bytes.backward_extra();
}

std::string work_text(const bench::AttentionCase& one, const bench::Ceilings& ceilings) {
  Table table{.columns = {left("pass"), left("nominal work"), left("least traffic MiB"), left("FLOP/byte"),
                          left("best time ms"), left("bound by")}};
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    const bool is_forward = pass == Pass::forward;
    if (is_forward ? !has_forward(one.passes) : !has_backward(one.passes)) continue;
    const double flops = is_forward ? bench::forward_flops(one) : bench::backward_flops(one);
    const auto bytes = static_cast<double>(least_traffic(one, pass));
    std::string time = "not measured";
    std::string bound = "-";
    if (const auto rate = ceilings.fastest(one.dtype); rate && ceilings.copy) {
      const double compute = flops / *rate;
      const double memory = bytes / *ceilings.copy;
      time = short_number(1e3 * std::max(compute, memory));
      bound = compute >= memory ? fmt::format("fastest {} matmul, {:.0f} GFLOP/s", name_of(one.dtype), *rate * 1e-9)
                                : fmt::format("copy, {:.1f} GB/s", *ceilings.copy * 1e-9);
    }
    table.cells.push_back({is_forward ? "forward" : "backward", flops_text(flops),
                           mebibytes(static_cast<std::int64_t>(bytes)),
                           bytes > 0 ? fmt::format("{:.0f}", flops / bytes) : "-", time, bound});
  }
  return table.text();
}

std::string items_text(const std::vector<bench::MemoryItem>& items) {
  std::string text;
  for (const bench::MemoryItem& item : items) {
    text += fmt::format("{}{} {}", text.empty() ? "" : " + ", item.name, mebibytes(item.bytes));
  }
  return text;
}

std::string memory_text(const bench::AttentionCase& one) {
  std::vector<bench::MemoryModel> models;
  for (const Verdict& verdict : explain(bench::attention_of(one), Pass::forward, bench::execution_of(one))) {
    if (verdict.refusal.empty()) models.push_back(bench::predict_kernel(one, verdict.kernel));
  }
  if (!one.options.any()) models.push_back(bench::predict_torch_naive(one));
  models.push_back(bench::predict_plain(one));
  Table table{.columns = {left("memory, MiB"), "total", left("items")}};
  std::string notes;
  const std::int64_t free = bench::free_bytes(one.device);
  for (const bench::MemoryModel& model : models) {
    table.cells.push_back(
        {model.implementation + " forward", mebibytes(model.forward_bytes()), items_text(model.forward)});
    if (has_backward(one.passes)) {
      table.cells.push_back({model.implementation + " backward extra", mebibytes(model.backward_bytes()),
                             items_text(model.backward_extra)});
    }
    if (!model.note.empty()) notes += fmt::format("{}: {}\n", model.implementation, model.note);
    const std::int64_t held = model.forward_bytes() + (has_backward(one.passes) ? model.backward_bytes() : 0);
    if (held > free) {
      notes += fmt::format("{}: does not fit, needs {} MiB of {} MiB free\n", model.implementation, mebibytes(held),
                           mebibytes(free));
    }
  }
  return table.text() + notes;
}

}  // namespace

int run_explain(Arguments arguments) {
  BenchOptions options;
  const OptionTable table = make_table(options);
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(kExplainIntroduction + help_on_flags(table));
    return kFine;
  }
  const Cases cases = cases_of(options);       // throws for invalid problems before any output or measurement
  std::string text = note_lines(cases.notes);  // printed at the end, because building it may throw
  const bench::Depth depth = options.how.quick ? bench::Depth::none : bench::Depth::brief;
  const bench::Ceilings ceilings = bench::ceilings_for(cases.cases, depth);
  for (const bench::AttentionCase& one : cases.cases) {
    text += fitting_line(fmt::format("{}; {}; scale 1/sqrt({})", describe(one), place_of(one), one.head_dim)) + "\n";
    if (has_forward(one.passes)) text += verdicts_text(one, Pass::forward) + "\n";
    if (has_backward(one.passes)) text += verdicts_text(one, Pass::backward) + "\n";
    text += work_text(one, ceilings) + "\n" + memory_text(one) + "\n";
  }
  print(text);
  return kFine;
}

}  // namespace strobe::cli
