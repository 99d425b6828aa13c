// Functions that create the charts of a report from cells, one per kind of chart. Each appends its figures; figures.cpp
// calls them in page order.
#pragma once

#include <functional>
#include <set>

#include "report/figure.h"
#include "report/series_names.h"

namespace strobe::report {

// Unit of all rates of a page or table, chosen by the largest rate: {1e-12, "TFLOP/s"} or {1e-9, "GFLOP/s"}.
struct RateUnit {
  double factor;
  const char* name;
};
inline RateUnit rate_unit(double largest) {
  return largest >= 1e12 ? RateUnit{1e-12, "TFLOP/s"} : RateUnit{1e-9, "GFLOP/s"};
}
RateUnit page_rate_unit(std::span<const Cell> cells);

// Input of all charts.
struct ChartInput {
  std::span<const Cell> cells;
  SeriesNames names;
  RateUnit unit;
  std::string baseline;  // see make_figures()
};

// Time, rate and memory against sequence length, batch, heads and embedding; memory saved for backward against
// sequence length.
void add_line_charts(const ChartInput& input, std::vector<Figure>& figures);
// Time by implementation, averaged over the problems that every implementation completed; causal against non-causal.
void add_bar_charts(const ChartInput& input, std::vector<Figure>& figures);
// Time, tokens per second and peak memory of training steps (lm bench).
void add_step_charts(const ChartInput& input, std::vector<Figure>& figures);
// Heat maps of speedup, memory ratio and status, with one field per cell.
void add_maps(const ChartInput& input, std::vector<Figure>& figures);
// Measured against predicted memory; rates against the machine's ceilings.
void add_point_charts(const ChartInput& input, std::vector<Figure>& figures);

// The cells of one dtype and causal setting. choices_of() returns every combination that has cells.
struct Choice {
  std::string causal, dtype;
  std::vector<const Cell*> cells;
};
std::vector<Choice> choices_of(std::span<const Cell> cells);

// "batch 16, 32 heads x 64, sequence 1024, fp16, causal": equal for the same problem on any machine.
inline std::string problem_of(const Cell& cell) { return describe(cell.config); }

}  // namespace strobe::report
