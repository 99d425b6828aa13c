// Charts as data: made from cells (charts*.cpp), drawn as SVG (svg.cpp) and by the page (page/report.js). A figure is
// one view; figures of one `id` are views of the same chart that the page's filters choose from.
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
  std::vector<std::string> words{};  // of a scale of words: position i is words[i]
  std::vector<double> ticks{};       // where the axis is labelled; empty: wherever it suits
};

enum class Mark { line, point, bar, rule };  // rule: a line without points, for ceilings and equalities

struct Point {
  double x, y;
  std::string label{};  // what the page tells about it
};

struct Series {
  std::string name;
  int color = 0;  // index of the palette; -1: neutral
  Mark mark = Mark::line;
  std::vector<Point> points{};
};

// A field of a map: column and row are indices of the axes' words.
struct Field {
  int column, row;
  std::string text;   // written in it
  std::string color;  // "#rrggbb", light enough for black text
  std::string label;  // what the page tells about it
};

struct Figure {
  std::string id, title, section{};
  std::string view{};                     // which of the figures with this id and these filters: "batch 16, 32 heads"
  std::string causal{}, dtype{}, pass{};  // filters: "off"/"on", "bf16", "forward"; "" where one does not matter
  std::string caption{};                  // machine, date, samples
  Axis x, y;
  std::vector<Series> series{};
  std::vector<Field> fields{};  // of a map; then there are no series
};

// Colours of series on white and on dark, in the order of their first appearance.
inline constexpr const char* kPalette[] = {"#0068b5", "#d1520a", "#00876c", "#a8468c", "#b8860b", "#5a5fd6", "#7a7a7a"};
inline constexpr const char* kDarkPalette[] = {"#58b0f5", "#ff9152", "#3fcfa8", "#e58cc8",
                                               "#f0c24b", "#a3a7ff", "#b5b5b5"};
inline constexpr int kColors = 7;

Json figure_json(const Figure& figure);

// All figures of a report, the views that show most first.
std::vector<Figure> make_figures(std::span<const Cell> cells);

}  // namespace strobe::report
