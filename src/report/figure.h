// Charts as data. charts*.cpp creates figures from cells; svg.cpp and page/report.js draw them. Figures with the same
// `id` are views of one chart, among which the user of the page chooses.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/json.h"
#include "report/cells.h"

namespace strobe::report {

enum class Scale { linear, logarithmic, words };

struct Axis {
  std::string title;
  Scale scale = Scale::linear;
  std::vector<std::string> words{};  // for Scale::words: words[i] is at position i
  std::vector<double> ticks{};       // labelled positions; empty: automatic
};

enum class Mark { line, point, bar, rule };  // rule: a dashed line without points, for reference values

struct Point {
  double x, y;
  std::string label{};       // tooltip on the page
  double low = 0, high = 0;  // interval of y, drawn as a whisker if low < high
};

struct Series {
  std::string name;
  int color = 0;  // index of the palette; -1: neutral; -2: light neutral
  Mark mark = Mark::line;
  std::vector<Point> points{};
};

// A field of a heat map. `column` and `row` are indices into the words of the x and the y axis.
struct Field {
  int column, row;
  std::string text;   // shown in the field
  std::string color;  // "#rrggbb", light enough for black text
  std::string label;  // tooltip on the page
};

struct Figure {
  std::string id, title, section{};
  std::string view{};                     // text that distinguishes the views of one id: "batch 16, 32 heads"
  std::string causal{}, dtype{}, pass{};  // filter values: "off" or "on", "bf16", "forward"; "": not filtered
  std::string caption{};                  // machine, date, samples
  Axis x, y;
  std::vector<Series> series{};
  std::vector<Field> fields{};  // fields of a heat map; other figures have series instead
};

// The title with ", log scale" on a logarithmic axis.
std::string axis_title(const Axis& axis);

// Series colours on a white and on a dark background; SeriesNames assigns them.
inline constexpr const char* kPalette[] = {"#0068b5", "#d1520a", "#00876c", "#a8468c", "#b8860b", "#5a5fd6", "#7a7a7a"};
inline constexpr const char* kDarkPalette[] = {"#58b0f5", "#ff9152", "#3fcfa8", "#e58cc8",
                                               "#f0c24b", "#a3a7ff", "#b5b5b5"};
inline constexpr int kColors = 7;

Json figure_json(const Figure& figure);

// Returns the points of a chart: "series,x,y\n...". Positions of an axis of words are its words.
std::string figure_csv(const Figure& figure);
inline constexpr const char* kFigureTableMark = "series,x,y";  // begins this text

// Returns all figures of these cells; views with the most data come first. `baseline` is the implementation that
// speedup and memory maps compare with; empty: one that materialises scores, else the first.
std::vector<Figure> make_figures(std::span<const Cell> cells, const std::string& baseline = "");

}  // namespace strobe::report
