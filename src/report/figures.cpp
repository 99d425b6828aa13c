// Creates all figures of cells in page order, and converts figures to JSON for the page.
#include <algorithm>
#include <iterator>

#include "report/charts.h"
#include "results/escape.h"

namespace strobe::report {
namespace {

Json axis_json(const Axis& axis) {
  Json words = Json::array(), ticks = Json::array();
  for (const std::string& word : axis.words) words.push_back(word);
  for (const double tick : axis.ticks) ticks.push_back(tick);
  const char* scale = axis.scale == Scale::linear ? "linear" : axis.scale == Scale::words ? "words" : "logarithmic";
  return Json::object({{"title", axis_title(axis)}, {"scale", scale}, {"words", words}, {"ticks", ticks}});
}

const char* name_of(Mark mark) {
  switch (mark) {
    case Mark::line: return "line";
    case Mark::point: return "point";
    case Mark::bar: return "bar";
    case Mark::rule: return "rule";
  }
  return "unknown";
}

}  // namespace

Json figure_json(const Figure& figure) {
  Json series = Json::array(), fields = Json::array();
  for (const Series& one : figure.series) {
    Json points = Json::array();
    for (const Point& point : one.points) {
      Json json = Json::array({point.x, point.y, point.label});
      if (point.low < point.high) {
        json.push_back(point.low);
        json.push_back(point.high);
      }
      points.push_back(std::move(json));
    }
    series.push_back(
        Json::object({{"name", one.name}, {"color", one.color}, {"mark", name_of(one.mark)}, {"points", points}}));
  }
  for (const Field& field : figure.fields) {
    fields.push_back(Json::array({field.column, field.row, field.text, field.color, field.label}));
  }
  return Json::object({{"id", figure.id},
                       {"title", figure.title},
                       {"section", figure.section},
                       {"view", figure.view},
                       {"causal", figure.causal},
                       {"dtype", figure.dtype},
                       {"pass", figure.pass},
                       {"caption", figure.caption},
                       {"x", axis_json(figure.x)},
                       {"y", axis_json(figure.y)},
                       {"series", series},
                       {"fields", fields}});
}

std::vector<Choice> choices_of(std::span<const Cell> cells) {
  std::vector<Choice> choices;
  for (const Cell& cell : cells) {
    const std::string causal = cell.config.causal ? "on" : "off";
    const auto same = [&](const Choice& one) { return one.causal == causal && one.dtype == cell.config.dtype; };
    auto found = std::find_if(choices.begin(), choices.end(), same);
    if (found == choices.end()) found = choices.insert(choices.end(), {causal, cell.config.dtype, {}});
    found->cells.push_back(&cell);
  }
  return choices;
}

RateUnit page_rate_unit(std::span<const Cell> cells) {
  double largest = 0;
  for (const Cell& cell : cells) {
    for (const Pass pass : kPasses) largest = std::max(largest, cell.flop_rate(pass).value_or(0));
    for (const Result& launch : cell.launches) largest = std::max(largest, launch.matmul_rate.value_or(0));
  }
  return rate_unit(largest);
}

std::string axis_title(const Axis& axis) {
  return axis.scale == Scale::logarithmic ? axis.title + ", log scale" : axis.title;
}

std::string figure_csv(const Figure& figure) {
  std::string text = fmt::format("{}\n", kFigureTableMark);
  for (const Series& series : figure.series) {
    for (const Point& point : series.points) {
      const bool is_word =
          figure.x.scale == Scale::words && point.x >= 0 && static_cast<std::size_t>(point.x) < figure.x.words.size();
      const std::string x =
          is_word ? csv_text(figure.x.words[static_cast<std::size_t>(point.x)]) : fmt::format("{}", point.x);
      text += fmt::format("{},{},{}\n", csv_text(series.name), x, point.y);
    }
  }
  return text;
}

std::vector<Figure> make_figures(std::span<const Cell> cells, const std::string& baseline) {
  std::vector<Cell> attention;  // other rows (other_rows.h) have charts of their own
  std::ranges::copy_if(cells, std::back_inserter(attention),
                       [](const Cell& one) { return one.config.problem.empty(); });
  const ChartInput input{attention, SeriesNames(cells), page_rate_unit(attention), baseline};
  std::vector<Figure> figures;
  add_step_charts({cells, input.names, input.unit, ""}, figures);
  if (attention.empty()) return figures;
  add_bar_charts(input, figures);
  add_maps(input, figures);
  add_line_charts(input, figures);
  add_point_charts(input, figures);
  return figures;
}

}  // namespace strobe::report
