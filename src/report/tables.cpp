// Builds the table of all cells. The time of a cell is the median of its launches' medians.
#include "report/tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/counted.h"
#include "core/short_number.h"
#include "report/charts.h"
#include "report/noise.h"
#include "report/problem_tables.h"
#include "report/series_names.h"
#include "report/verdict.h"
#include "results/escape.h"

namespace strobe::report {
namespace {

std::string figure(const std::optional<double>& value, double factor = 1) {
  return value ? short_number(factor * *value) : "";
}

// Returns the interval of the median in ms; empty unless the cell has exactly one launch with samples.
std::string interval(const Cell& cell, Pass pass) {
  if (cell.launches.size() != 1) return "";
  const std::optional<Timing>& timing = pass == Pass::forward ? cell.launches[0].forward : cell.launches[0].backward;
  if (!timing || timing->low >= timing->high) return "";
  return short_number(1e3 * timing->low) + " .. " + short_number(1e3 * timing->high);
}

}  // namespace

Table cell_table(std::span<const Cell> cells) {
  Table table{.columns = {left("implementation"),
                          left("machine"),
                          left("build"),
                          left("dtype"),
                          left("causal"),
                          left("status"),
                          "batch",
                          "sequence",
                          "heads",
                          "embedding",
                          "forward ms",
                          "forward interval",
                          "forward TFLOP/s",
                          "backward ms",
                          "backward interval",
                          "backward TFLOP/s",
                          "total ms",
                          "total TFLOP/s",
                          "memory MiB",
                          "saved MiB",
                          "predicted MiB",
                          "samples",
                          "launches"}};
  for (const Cell& cell : cells) {
    const Config& config = cell.config;
    table.cells.push_back({cell.implementation,
                           cell.run.machine,
                           short_revision(cell.run.revision),
                           config.dtype,
                           config.causal ? "on" : "off",
                           cell.status,
                           fmt::format("{}", config.batch),
                           fmt::format("{}", config.seqlen_q),
                           fmt::format("{}", config.heads),
                           fmt::format("{}", config.emb),
                           figure(cell.seconds(Pass::forward), 1e3),
                           interval(cell, Pass::forward),
                           figure(cell.flop_rate(Pass::forward), 1e-12),
                           figure(cell.seconds(Pass::backward), 1e3),
                           interval(cell, Pass::backward),
                           figure(cell.flop_rate(Pass::backward), 1e-12),
                           figure(cell.seconds(Pass::total), 1e3),
                           figure(cell.flop_rate(Pass::total), 1e-12),
                           figure(cell.peak_mb()),
                           figure(cell.saved_mb()),
                           figure(cell.predicted_mb()),
                           fmt::format("{}", cell.samples()),
                           fmt::format("{}", cell.launches.size())});
  }
  if (std::ranges::any_of(cells, [](const Cell& cell) { return !cell.config.problem.empty(); })) {
    table.columns.push_back(left("problem"));
    table.columns.emplace_back("step ms");
    for (std::size_t i = 0; i < cells.size(); ++i) {
      table.cells[i].push_back(cells[i].config.problem);
      table.cells[i].push_back(figure(cells[i].seconds(Pass::step), 1e3));
    }
  }
  return table;
}

FoldedTable fold_constants(const Table& table) {
  FoldedTable folded;
  folded.table.cells.resize(table.cells.size());
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    const auto same = [&](const std::vector<std::string>& row) { return row[column] == table.cells[0][column]; };
    if (column > 0 && table.cells.size() > 1 && std::ranges::all_of(table.cells, same)) {
      const std::string& value = table.cells[0][column];
      if (value.empty()) continue;
      folded.constants += (folded.constants.empty() ? "" : ", ") + table.columns[column].title + " " + value;
      continue;
    }
    folded.table.columns.push_back(table.columns[column]);
    for (std::size_t i = 0; i < table.cells.size(); ++i) folded.table.cells[i].push_back(table.cells[i][column]);
  }
  if (!folded.constants.empty()) folded.constants = "The same in all rows: " + folded.constants + ".";
  return folded;
}

std::string table_html(const Table& table, std::span<const Cell> cells) {
  std::string out = "<table id=\"cells\">\n<thead><tr>";
  for (const Heading& heading : table.columns) {
    out += fmt::format("<th scope=\"col\"><button type=\"button\">{}</button></th>", escaped(heading.title));
  }
  out += "</tr></thead>\n<tbody>\n";
  for (std::size_t i = 0; i < table.cells.size(); ++i) {
    const Config& config = cells[i].config;
    out += fmt::format("<tr data-causal=\"{}\" data-dtype=\"{}\" title=\"{}\">", config.causal ? "on" : "off",
                       escaped(config.dtype), escaped(cells[i].reason.empty() ? cells[i].kernel : cells[i].reason));
    for (std::size_t column = 0; column < table.cells[i].size(); ++column) {
      out += fmt::format("<td{}>{}</td>", table.columns[column].is_left ? "" : " class=\"n\"",
                         escaped(table.cells[i][column]));
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

// The verdict and the noise, as paragraphs.
std::string summary_of(std::span<const Cell> cells) {
  std::string text;
  for (const std::string& line : {verdict_text(standing_of(cells, SeriesNames(cells))), noise_text(cells)}) {
    if (!line.empty()) text += markdown_line(line) + ".\n\n";
  }
  return text;
}

std::string report_markdown(const Table& table, std::span<const Cell> cells, std::span<const Figure> figures) {
  std::vector<const Cell*> all;
  for (const Cell& cell : cells) all.push_back(&cell);
  const FoldedTable folded = fold_constants(table);
  return fmt::format(
             "# Attention: {}\n\n{}.\n\nTimes are medians. Intervals are 95 % intervals of the median, or the range of "
             "fewer than 6 samples. D: head dimension.\n\n",
             counted(cells.size(), "cell"), markdown_line(caption_of(all))) +
         summary_of(cells) + problem_tables(cells) + map_tables(figures) + "## All cells\n\n" +
         (folded.constants.empty() ? "" : markdown_line(folded.constants) + "\n\n") + folded.table.markdown();
}

}  // namespace strobe::report
