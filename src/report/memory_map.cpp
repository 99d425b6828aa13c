// Draws memory maps (memory_map.h) as SVG and HTML.
#include "report/memory_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/short_number.h"
#include "report/assets.h"
#include "report/figure.h"
#include "report/html.h"
#include "report/plot_scale.h"
#include "results/escape.h"

namespace strobe::report {
namespace {

constexpr double kMapWidth = 760, kMapLeft = 70, kMapRight = 16, kMapTop = 96, kMapBottom = 60, kMapHeight = 470;

// Returns CSS rules for the colours of blocks: the colours of the palette, then `last` for one more category. `before`
// is put before each selector.
std::string color_rules(std::span<const char* const> palette, const char* last, const char* before) {
  std::string rules;
  for (std::size_t i = 0; i < palette.size(); ++i) rules += fmt::format("{}.k{}{{fill:{}}}", before, i, palette[i]);
  return rules + fmt::format("{}.k{}{{fill:{}}}", before, palette.size(), last);
}

class MapDrawing {
 public:
  explicit MapDrawing(const MemoryMap& map)
      : map_(map),
        unit_(map.bytes >= std::size_t{1} << 30 ? 0x1p30 : 0x1p20),
        x_({.title = {}}, {0, static_cast<double>(map.operations.size())}, kMapLeft, kMapWidth - kMapRight),
        y_({.title = {}}, {0, static_cast<double>(map.bytes) / unit_}, kMapHeight - kMapBottom, kMapTop) {}

  std::string whole() {
    begin(0);
    text(16, 24, map_.title, "font-size=\"16\" font-weight=\"600\"");
    text(16, 43, map_.caption, "font-size=\"11\"");
    legend();
    return plot();
  }

  // As whole(), with the title, the caption and the legend as HTML, which wraps on a phone. Only the plot scrolls.
  std::string card() {
    begin(kMapTop - 14);
    std::string entries;
    for (std::size_t i = 0; i < map_.categories.size(); ++i) {
      entries += fmt::format(
          "<span><svg width=\"11\" height=\"10\"><rect class=\"k{}\" width=\"11\" height=\"10\"/></svg>"
          "{}</span>\n",
          i, escaped(map_.categories[i]));
    }
    return fmt::format(
        "<section class=\"card\"><h3>{}</h3>\n<p class=\"caption\">{}</p>\n<p class=\"legend\">{}</p>\n"
        "<div class=\"scroll\">\n{}</div></section>\n",
        escaped(map_.title), escaped(map_.caption), entries, plot());
  }

 private:
  // Begins the SVG without its first `top` units.
  void begin(double top) {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 {3:.0f} {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"12\">\n"
        "<style>{2}</style>\n<rect class=\"paper\" y=\"{3:.0f}\" width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        kMapWidth, kMapHeight - top, color_rules(kPalette, "#c0c0c0", ""), top);
  }

  std::string plot() {
    axes();
    for (const MemoryBlock& block : map_.blocks) draw(block);
    marks();
    return out_ + "</svg>\n";
  }

  void text(double x, double y, const std::string& words, const char* style) {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, style, escaped(words));
  }

  void legend() {
    double x = kMapLeft, y = 60;
    for (std::size_t i = 0; i < map_.categories.size(); ++i) {
      const double width = 28 + 6.4 * static_cast<double>(map_.categories[i].size());
      if (x + width > kMapWidth) {
        x = kMapLeft;
        y += 16;
      }
      out_ += fmt::format("<rect class=\"k{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"11\" height=\"10\"/>\n", i, x, y - 9);
      text(x + 16, y, map_.categories[i], "");
      x += width;
    }
  }

  void axes() {
    for (const PlotScale::Tick& tick : y_.ticks()) {
      out_ += fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#e4e4e4\"/>\n", kMapLeft, tick.at,
                          kMapWidth - kMapRight);
      text(kMapLeft - 8, tick.at + 4, tick.text, "text-anchor=\"end\"");
    }
    for (const PlotScale::Tick& tick : x_.ticks()) {
      text(tick.at, kMapHeight - kMapBottom + 16, tick.text, "text-anchor=\"middle\"");
    }
    text((kMapLeft + kMapWidth - kMapRight) / 2, kMapHeight - 10, "operations", "text-anchor=\"middle\"");
    out_ += fmt::format("<text transform=\"translate(16 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{} held</text>\n",
                        (kMapTop + kMapHeight - kMapBottom) / 2, unit_ > 0x1p20 ? "GiB" : "MiB");
  }

  void draw(const MemoryBlock& block) {
    const double left = x_.at(block.from), right = x_.at(block.to + 1);
    const double bottom = y_.at(static_cast<double>(block.at) / unit_);
    const double top = y_.at(static_cast<double>(block.at + block.bytes) / unit_);
    const auto operation = [&](int at) { return map_.operations.at(static_cast<std::size_t>(at)); };
    out_ += fmt::format(
        "<rect class=\"k{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"><title>{}</title></rect>\n",
        block.category, left, top, right - left, bottom - top,
        escaped(fmt::format("{}: {}, {}; {} to {}: from {} to {}", block.name, bytes_text(block.bytes),
                            map_.categories.at(block.category), block.from, block.to, operation(block.from),
                            operation(block.to))));
  }

  // Marks the beginning of each phase, and the peak.
  void marks() {
    for (const MemoryMap::Part& part : map_.parts) {
      const double at = x_.at(part.from);
      out_ += fmt::format("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\" stroke=\"#777\" stroke-dasharray=\"3 3\"/>\n", at,
                          kMapTop, kMapHeight - kMapBottom + 22);
      text(at + 3, kMapHeight - kMapBottom + 31, part.name, "font-size=\"11\"");
    }
    text(kMapWidth - kMapRight, kMapHeight - 10,
         fmt::format("peak: {} in operation {}", bytes_text(map_.bytes), map_.peak_at),
         "text-anchor=\"end\" font-size=\"11\"");
  }

  const MemoryMap& map_;
  double unit_;
  PlotScale x_, y_;
  std::string out_;
};

}  // namespace

std::string memory_map_svg(const MemoryMap& map) { return MapDrawing(map).whole(); }

std::string memory_map_page(std::span<const MemoryMap> maps) {
  std::string cards;
  for (const MemoryMap& map : maps) cards += MapDrawing(map).card();
  const PagePart parts[] = {{"style", kPageStyle},
                            {"dark", color_rules(kDarkPalette, "#606060", ":root[data-theme=\"dark\"] ")},
                            {"maps", cards}};
  return fill(kMemoryPage, parts);
}

}  // namespace strobe::report
