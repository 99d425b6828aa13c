// Implements figure_svg(). The title, the view and the legend are above the plot, the caption is below it.
#include "report/svg.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/plot_scale.h"
#include "results/escape.h"

namespace strobe::report {
namespace {

constexpr double kWidth = 760, kLeft = 78, kRight = 20, kTop = 92, kBottom = 74;
constexpr double kRowHeight = 26;  // row of a heat map
constexpr const char *kNeutral = "#666666", *kLightNeutral = "#b4bcc6";

// Dash patterns of lines by their order in a figure, as in page/report.js. Where two lines coincide, the gaps of the
// later one show the earlier one.
constexpr const char* kDashes[] = {"", "9 5", "3 4", "12 4 3 4"};
constexpr std::size_t kMostMarkedPoints = 60;  // lines with more points have no circles

const char* color_of(const Series& series) {
  if (series.color < 0) return series.color == -1 ? kNeutral : kLightNeutral;
  return kPalette[series.color % kColors];
}

struct Frame {
  double left, right, top, bottom;
};

// Position of a series' legend entry; y is relative to the first legend line.
struct LegendPlace {
  double x, y;
};

std::vector<LegendPlace> legend_places(const Figure& figure, double left) {
  constexpr double kLine = 17;
  std::vector<LegendPlace> places;
  LegendPlace next{left, 0};
  for (const Series& series : figure.series) {
    const double width = 26 + 6.6 * static_cast<double>(series.name.size());
    if (next.x > left && next.x + width > kWidth) next = {left, next.y + kLine};
    places.push_back(next);
    next.x += width;
  }
  return places;
}

class Drawing {
 public:
  explicit Drawing(const Figure& figure) : figure_(figure) {
    std::size_t longest = 0;
    for (const std::string& word : figure.y.words) longest = std::max(longest, word.size());
    const bool is_map = !figure.fields.empty();
    const double left = std::max(kLeft, 24 + 6.3 * static_cast<double>(longest));
    legend_ = legend_places(figure, left);
    const double top = kTop + (legend_.empty() ? 0 : legend_.back().y);
    const double height =
        is_map ? top + kBottom + kRowHeight * static_cast<double>(figure.y.words.size()) : top + kBottom + 300;
    frame_ = {left, kWidth - kRight, top, height - kBottom};
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" "
        "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"12\" fill=\"#222\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        kWidth, height);
  }

  std::string whole() {
    text(16, 26, figure_.title, "font-size=\"17\" font-weight=\"600\"");
    std::string line = figure_.view;
    for (const std::string& part : {figure_.pass, figure_.dtype, "causal " + figure_.causal}) {
      if (!part.empty() && part != "causal ") line += (line.empty() ? "" : "; ") + part;
    }
    text(16, 46, line, "fill=\"#555\"");
    text(16, frame_.bottom + kBottom - 12, figure_.caption, "fill=\"#777\" font-size=\"10.5\"");
    figure_.fields.empty() ? draw_plot() : draw_map();
    return out_ + "</svg>\n";
  }

 private:
  void text(double x, double y, const std::string& words, const std::string& style) {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, style, escaped(words));
  }

  void line(double x1, double y1, double x2, double y2, const char* color) {
    out_ += fmt::format("<path d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2, y2, color);
  }

  void axes(const PlotScale& x, const PlotScale& y) {
    for (const PlotScale::Tick& tick : y.ticks()) {
      if (figure_.fields.empty()) line(frame_.left, tick.at, frame_.right, tick.at, "#e4e4e4");
      text(frame_.left - 8, tick.at + 4, tick.text, "text-anchor=\"end\"");
    }
    double last = -100;
    for (const PlotScale::Tick& tick : x.ticks()) {
      const double half = 3.4 * static_cast<double>(tick.text.size());
      if (tick.at - half < last) continue;  // would touch the previous label
      last = tick.at + half + 4;
      text(tick.at, frame_.bottom + 18, tick.text, "text-anchor=\"middle\"");
    }
    line(frame_.left, frame_.bottom, frame_.right, frame_.bottom, "#999");
    text((frame_.left + frame_.right) / 2, frame_.bottom + 38, axis_title(figure_.x),
         "text-anchor=\"middle\" fill=\"#555\"");
  }

  void legend() {
    for (std::size_t i = 0; i < legend_.size(); ++i) {
      const Series& series = figure_.series[i];
      const auto [x, y] = legend_[i];
      out_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"{}\" fill=\"{}\"/>\n", x, 62 + y,
                          series.mark == Mark::bar ? 10 : 3, color_of(series));
      text(x + 17, 69 + y, series.name, "");
    }
  }

  void draw_plot() {
    std::vector<double> xs, ys;
    for (const Series& series : figure_.series) {
      for (const Point& point : series.points) {
        xs.push_back(point.x);
        ys.push_back(point.y);
        if (point.low < point.high) ys.insert(ys.end(), {point.low, point.high});
      }
    }
    const PlotScale x(figure_.x, xs, frame_.left, frame_.right), y(figure_.y, ys, frame_.bottom, frame_.top);
    axes(x, y);
    out_ += fmt::format(
        "<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\" fill=\"#555\">{}</text>\n",
        (frame_.top + frame_.bottom) / 2, escaped(axis_title(figure_.y)));
    legend();
    int bars = 0;
    for (std::size_t i = 0; i < figure_.series.size(); ++i) {
      if (figure_.series[i].mark == Mark::bar)
        draw_bars(figure_.series[i], x, y, bars++);
      else
        draw_points(figure_.series[i], i, x, y);
    }
  }

  void draw_points(const Series& series, std::size_t index, const PlotScale& x, const PlotScale& y) {
    const char* color = color_of(series);
    const char* dashes = series.mark == Mark::rule ? "6 4" : kDashes[index % std::size(kDashes)];
    if (series.mark != Mark::point) {
      std::string path;
      for (const Point& point : series.points) {
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x.at(point.x), y.at(point.y));
      }
      out_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", path, color,
                          *dashes ? fmt::format(" stroke-dasharray=\"{}\"", dashes) : "");
    }
    if (series.mark == Mark::rule || series.points.size() > kMostMarkedPoints) return;
    for (const Point& point : series.points) {
      if (point.low < point.high) whisker(x.at(point.x), y.at(point.low), y.at(point.high), color);
      out_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.6\" fill=\"{}\"><title>{}</title></circle>\n",
                          x.at(point.x), y.at(point.y), color, escaped(point.label));
    }
  }

  void whisker(double x, double low, double high, const char* color) {
    out_ += fmt::format(
        "<path d=\"M{0:.1f} {1:.1f}V{2:.1f}M{3:.1f} {1:.1f}H{4:.1f}M{3:.1f} {2:.1f}H{4:.1f}\" "
        "stroke=\"{5}\" stroke-width=\"1.3\"/>\n",
        x, low, high, x - 4, x + 4, color);
  }

  // Bars of different series at one position are side by side. If each series has only one bar, the bar is centred.
  void draw_bars(const Series& series, const PlotScale& x, const PlotScale& y, int index) {
    const bool single = series.points.size() == 1 && figure_.x.words.size() == figure_.series.size();
    const double width = std::min(70.0, 0.7 * x.step() / (single ? 1 : static_cast<double>(figure_.series.size())));
    const double count = single ? 1 : static_cast<double>(figure_.series.size());
    for (const Point& point : series.points) {
      const double left = x.at(point.x) + ((single ? 0 : index) - count / 2) * width, top = y.at(point.y);
      out_ += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"2\" fill=\"{}\"><title>{}</title>"
          "</rect>\n",
          left, top, 0.94 * width, frame_.bottom - top, color_of(series), escaped(point.label));
    }
  }

  void draw_map() {
    const PlotScale x(figure_.x, {}, frame_.left, frame_.right), y(figure_.y, {}, frame_.top, frame_.bottom);
    axes(x, y);
    // The title of the y axis is above the map, because row names fill the space to the left of the map.
    text(16, frame_.top - 10, figure_.y.title, "fill=\"#555\"");
    for (const Field& field : figure_.fields) {
      const double left = x.at(field.column) - x.step() / 2, top = y.at(field.row) - y.step() / 2;
      out_ += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"><title>{}</title></rect>\n",
          left + 1, top + 1, x.step() - 2, y.step() - 2, field.color, escaped(field.label));
      text(x.at(field.column), y.at(field.row) + 4, field.text, "text-anchor=\"middle\"");
    }
  }

  const Figure& figure_;
  std::vector<LegendPlace> legend_;  // per series
  Frame frame_{};
  std::string out_;
};

}  // namespace

std::string figure_svg(const Figure& figure) { return Drawing(figure).whole(); }

std::string file_name(const Figure& figure) {
  std::string name = figure.id;
  for (const std::string& part : {figure.pass, figure.dtype}) {
    if (!part.empty()) name += "-" + part;
  }
  if (!figure.causal.empty()) name += "-causal-" + figure.causal;
  if (!figure.fields.empty()) name += "-" + figure.view;  // a map shows one implementation
  name.resize(std::min<std::size_t>(name.size(), 150));
  for (char& c : name) {  // dtypes and implementation names are untrusted text
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  return name;
}

}  // namespace strobe::report
