// Implements SeriesNames and the captions of figures.
#include "report/series_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/counted.h"
#include "core/utf8.h"
#include "report/figure.h"

namespace strobe::report {
namespace {

// Implementations with a preferred colour: the index here is the index of the colour in the palette.
constexpr std::string_view kKnown[] = {"flash2", "standard", "torch-sdpa", "torch-naive", "hopper"};

std::string span_text(std::size_t least, std::size_t most, const char* one, const char* several) {
  if (least == most) return fmt::format("{} {}", least, least == 1 ? one : several);
  return fmt::format("{} to {} {}", least, most, several);
}

std::string joined(const std::set<std::string>& words) {
  std::string text;
  std::size_t count = 0;
  for (const std::string& word : words) {
    if (count == 2 && words.size() > 3) return text + fmt::format(" and {} more", words.size() - 2);
    text += (count++ ? " and " : "") + word;
  }
  return text;
}

}  // namespace

std::string short_revision(const std::string& revision) {
  return std::string(utf8_prefix(revision, 10)) + (revision.ends_with("+changes") ? "+" : "");
}

SeriesNames::SeriesNames(std::span<const Cell> cells) {
  for (const Cell& cell : cells) {
    const Run& first = cells.front().run;
    devices_ |= cell.run.device != first.device;
    machines_ |= cell.run.machine != first.machine;
    revisions_ |= cell.run.revision != first.revision;
    threads_ |= cell.run.threads != first.threads && cell.run.device == first.device;
  }
  for (const Cell& cell : cells) {
    const std::string series = name(cell);
    if (colors_.contains(series)) continue;
    const auto* const known = std::ranges::find(kKnown, cell.implementation);
    const int preferred = known == std::end(kKnown) ? kColors : static_cast<int>(known - std::begin(kKnown));
    colors_.emplace(series, free_color(preferred));
  }
}

std::string SeriesNames::name(const Cell& cell) const {
  std::string text = cell.implementation;
  if (machines_ && !cell.run.machine.empty()) text += ", " + cell.run.machine;
  if (devices_ && !machines_) text += ", " + cell.run.device;
  if (threads_) text += ", " + counted(cell.run.threads, "thread");
  if (revisions_) text += ", " + short_revision(cell.run.revision);
  return text;
}

// Returns the preferred colour unless another series has it, else the last free colour of the palette. Colours repeat
// if none is free.
int SeriesNames::free_color(int preferred) const {
  std::set<int> used;
  for (const auto& [series, color] : colors_) used.insert(color);
  if (preferred < kColors && !used.contains(preferred)) return preferred;
  for (int color = kColors - 1; color >= 0; --color) {
    if (!used.contains(color)) return color;
  }
  return static_cast<int>(colors_.size()) % kColors;
}

int SeriesNames::color(const Cell& cell) const { return colors_.at(name(cell)); }

std::string caption_of(std::span<const Cell* const> cells) {
  std::set<std::string> machines, days, revisions;
  std::size_t least = SIZE_MAX, most = 0, least_launches = SIZE_MAX, most_launches = 0;
  for (const Cell* cell : cells) {
    std::string machine = cell->run.machine.empty() ? "unknown machine" : cell->run.machine;
    if (cell->run.device == "cpu" && cell->run.threads > 0) {
      machine += fmt::format(", {} thread{}", cell->run.threads, cell->run.threads == 1 ? "" : "s");
    }
    machines.insert(machine);
    if (!cell->date.empty()) days.emplace(utf8_prefix(cell->date, 10));
    if (!cell->run.revision.empty()) revisions.insert(short_revision(cell->run.revision));
    if (cell->launches.empty()) continue;
    least = std::min(least, cell->samples());
    most = std::max(most, cell->samples());
    least_launches = std::min(least_launches, cell->launches.size());
    most_launches = std::max(most_launches, cell->launches.size());
  }
  std::string text = joined(machines);
  if (!days.empty()) text += "; " + (days.size() == 1 ? *days.begin() : *days.begin() + " to " + *days.rbegin());
  if (most > 0) {
    text += fmt::format("; {} per point in {}", span_text(least, most, "sample", "samples"),
                        span_text(least_launches, most_launches, "launch", "launches"));
  }
  if (!revisions.empty()) text += "; build " + joined(revisions);
  return text;
}

}  // namespace strobe::report
