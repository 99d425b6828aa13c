// Fills page/report.html with its style, script, chart library, figures as JSON and the table of all cells.
#include "report/html.h"

#include <algorithm>

#include "core/counted.h"
#include "core/fail.h"
#include "report/assets.h"
#include "report/noise.h"
#include "report/series_names.h"
#include "report/tables.h"
#include "report/verdict.h"
#include "results/escape.h"

namespace strobe::report {
namespace {

Json palette_json(std::span<const char* const> colors) {
  Json json = Json::array();
  for (const char* color : colors) json.push_back(color);
  return json;
}

// "72 of 96 cells measured; 24 oom."
std::string summary_text(std::span<const Cell> cells) {
  std::string text;
  for (const char* status : kStatuses) {
    const auto count = std::count_if(cells.begin(), cells.end(), [&](const Cell& one) { return one.status == status; });
    if (std::string_view(status) == "ok") {
      text = fmt::format("{} of {} measured", count, counted(cells.size(), "cell"));
    } else if (count > 0) {
      text += fmt::format("; {} {}", count, status);
    }
  }
  return text + ".";
}

}  // namespace

std::string fill(std::string_view page, std::span<const PagePart> parts) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t begin = page.find("{{", at);
    if (begin == std::string_view::npos) return out.append(page.substr(at));
    const std::size_t end = page.find("}}", begin);
    const std::string_view name = page.substr(begin + 2, end - begin - 2);
    out.append(page.substr(at, begin - at));
    const auto part = std::find_if(parts.begin(), parts.end(), [&](const auto& one) { return one.first == name; });
    if (part == parts.end()) fail(ErrorCode::runtime, "report: the page has an unknown part \"{}\"", name);
    out.append(part->second);
    at = end + 2;
  }
}

std::string report_html(std::span<const Cell> cells, std::span<const Figure> figures) {
  if (kChartLibrary[0] == '\0') {
    fail(ErrorCode::unsupported,
         "report: this build has no chart library; install Debian's libjs-chart.js (or give -DSTROBE_CHART_JS=FILE to "
         "cmake) and build again");
  }
  Json data = Json::object(
      {{"palette", palette_json(kPalette)}, {"dark_palette", palette_json(kDarkPalette)}, {"figures", Json::array()}});
  Json list = Json::array();
  for (const Figure& figure : figures) list.push_back(figure_json(figure));
  data.set("figures", std::move(list));
  std::vector<const Cell*> all;
  for (const Cell& cell : cells) all.push_back(&cell);
  const FoldedTable folded = fold_constants(cell_table(cells));
  const PagePart parts[] = {{"style", kPageStyle},
                            {"script", kPageScript},
                            {"library", kChartLibrary},
                            {"title", cells.empty() ? "Training, measured" : "Attention, measured"},
                            {"hidden", cells.empty() ? " hidden" : ""},
                            {"caption", escaped(caption_of(all))},
                            {"summary", cells.empty() ? "" : summary_text(cells)},
                            {"verdict", escaped(verdict_text(standing_of(cells, SeriesNames(cells))))},
                            {"noise", escaped(noise_text(cells))},
                            {"constants", escaped(folded.constants)},
                            {"table", table_html(folded.table, cells)},
                            {"data", script_json(data.dump())}};
  return fill(kPageHtml, parts);
}

}  // namespace strobe::report
