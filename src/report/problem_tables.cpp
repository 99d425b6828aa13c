// Arranges cells in a grid of problems and implementations, and formats it as Markdown.
#include "report/problem_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "core/short_number.h"
#include "report/charts.h"
#include "results/escape.h"
#include "results/table.h"

namespace strobe::report {
namespace {

struct Quantity {
  std::string title;
  std::function<std::optional<double>(const Cell&)> value;
};

std::vector<Quantity> quantities() {
  std::vector<Quantity> all;
  for (const Pass pass : kPasses) {
    all.push_back({fmt::format("{}, ms", name_of(pass)), [pass](const Cell& cell) -> std::optional<double> {
                     const std::optional<double> seconds = cell.seconds(pass);
                     return seconds ? std::optional(1e3 * *seconds) : std::nullopt;
                   }});
  }
  all.push_back({"memory saved for backward, MiB", [](const Cell& cell) { return cell.saved_mb(); }});
  all.push_back({"peak memory, MiB", [](const Cell& cell) { return cell.peak_mb(); }});
  return all;
}

// A column for a size, or for masks and options (Config::rest).
struct SizeColumn {
  const char* title;
  std::function<std::string(const Config&)> text;
};

std::vector<SizeColumn> size_columns() {
  const auto size = [](std::int64_t Config::*member) {
    return [member](const Config& config) { return fmt::format("{}", config.*member); };
  };
  return {{"batch", size(&Config::batch)},
          {"heads", size(&Config::heads)},
          {"KV heads", [](const Config& config) { return fmt::format("{}", config.kv_heads); }},
          {"D", size(&Config::head_dim)},
          {"sequence", size(&Config::seqlen_q)},
          {"keys", size(&Config::seqlen_k)},
          {"configuration", [](const Config& config) { return config.rest; }}};
}

struct ProblemRow {
  const Config* config;
  std::vector<const Cell*> cells;  // cells[i] is of names[i]; null if the files have no such cell
};

// The cells of one dtype and causal setting: one row per problem, one column per implementation.
struct ProblemGrid {
  std::vector<std::string> names;  // implementations
  std::vector<ProblemRow> rows;
};

ProblemGrid grid_of(const Choice& choice, const SeriesNames& series) {
  ProblemGrid grid;
  std::map<std::string, std::size_t> places;  // by problem
  for (const Cell* cell : choice.cells) {
    const std::string name = series.name(*cell);
    if (std::ranges::find(grid.names, name) == grid.names.end()) grid.names.push_back(name);
  }
  for (const Cell* cell : choice.cells) {
    const auto [place, is_new] = places.emplace(problem_of(*cell), grid.rows.size());
    if (is_new) grid.rows.push_back({&cell->config, std::vector<const Cell*>(grid.names.size())});
    const auto column = std::ranges::find(grid.names, series.name(*cell)) - grid.names.begin();
    const Cell*& found = grid.rows[place->second].cells[static_cast<std::size_t>(column)];
    if (!found || found->status != "ok") found = cell;
  }
  return grid;
}

// Returns the columns of sizes that vary. Appends the constant ones to `heading`: ", batch 8, heads 1".
std::vector<SizeColumn> varying_columns(const ProblemGrid& grid, std::string& heading) {
  std::vector<SizeColumn> varying;
  for (const SizeColumn& column : size_columns()) {
    const std::string first = column.text(*grid.rows.front().config);
    const auto is_first = [&](const ProblemRow& row) { return column.text(*row.config) == first; };
    const std::string_view title = column.title;
    const auto same_as = [&](std::int64_t Config::*one, std::int64_t Config::*other) {
      return std::ranges::all_of(grid.rows,
                                 [&](const ProblemRow& row) { return row.config->*one == row.config->*other; });
    };
    if (title == "KV heads" && same_as(&Config::kv_heads, &Config::heads)) continue;
    if (title == "keys" && same_as(&Config::seqlen_k, &Config::seqlen_q)) continue;
    if (!std::ranges::all_of(grid.rows, is_first)) {
      varying.push_back(column);
    } else if (!first.empty()) {
      heading += title == "configuration" ? ", " + first : fmt::format(", {} {}", title, first);
    }
  }
  return varying;
}

std::string figure_of(const Cell* cell, const Quantity& quantity) {
  if (!cell) return "";
  if (cell->status != "ok") return cell->status;
  const std::optional<double> value = quantity.value(*cell);
  return value ? short_number(*value) : "";
}

std::string table_of(const ProblemGrid& grid, std::span<const SizeColumn> sizes, const Quantity& quantity) {
  Table table;
  for (const SizeColumn& column : sizes) table.columns.emplace_back(column.title);
  table.columns.insert(table.columns.end(), grid.names.begin(), grid.names.end());
  for (const ProblemRow& row : grid.rows) {
    std::vector<std::string>& cells = table.cells.emplace_back();
    for (const SizeColumn& column : sizes) cells.push_back(column.text(*row.config));
    for (const Cell* cell : row.cells) cells.push_back(figure_of(cell, quantity));
  }
  return table.markdown();
}

bool has_figures(const ProblemGrid& grid, const Quantity& quantity) {
  return std::ranges::any_of(grid.rows, [&](const ProblemRow& row) {
    return std::ranges::any_of(
        row.cells, [&](const Cell* cell) { return cell && cell->status == "ok" && quantity.value(*cell).has_value(); });
  });
}

std::string heading_of(const std::string& title, const std::string& causal, const std::string& dtype) {
  return fmt::format("## {}: {}, causal {}", title, markdown_text(dtype), causal);
}

}  // namespace

std::string problem_tables(std::span<const Cell> cells) {
  const SeriesNames series(cells);
  std::string text;
  for (const Choice& choice : choices_of(cells)) {
    const ProblemGrid grid = grid_of(choice, series);
    std::string shared;
    const std::vector<SizeColumn> sizes = varying_columns(grid, shared);
    for (const Quantity& quantity : quantities()) {
      if (!has_figures(grid, quantity)) continue;
      std::string title = quantity.title;
      title[0] = static_cast<char>(title[0] - 'a' + 'A');
      text += heading_of(title, choice.causal, choice.dtype) + markdown_text(shared) + "\n\n" +
              table_of(grid, sizes, quantity) + "\n";
    }
  }
  return text;
}

std::string map_tables(std::span<const Figure> figures) {
  std::string text;
  for (const Figure& figure : figures) {
    if (figure.id != "speed-up" && figure.id != "memory-ratio") continue;
    Table table{.columns = {left(fmt::format("{} \\ {}", figure.y.title, figure.x.title))}};
    table.columns.insert(table.columns.end(), figure.x.words.begin(), figure.x.words.end());
    for (const std::string& row : figure.y.words) table.cells.emplace_back(table.columns.size()).front() = row;
    for (const Field& field : figure.fields) {
      table.cells[static_cast<std::size_t>(field.row)][static_cast<std::size_t>(field.column) + 1] = field.text;
    }
    const std::string title = figure.title + (figure.pass.empty() ? "" : ", " + figure.pass);
    text += heading_of(title, figure.causal, figure.dtype) + ", " + markdown_text(figure.view) + "\n\n" +
            table.markdown() + "\n";
  }
  return text;
}

}  // namespace strobe::report
