#include "cli/lm/memory_document.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"
#include "measure/environment.h"

namespace strobe::cli {
namespace {

using lm::Category;

Json by_category_json(const lm::ByCategory& bytes) {
  Json json = Json::object();
  for (std::size_t i = 0; i < bytes.size(); ++i) json.set(name_of(static_cast<Category>(i)), bytes[i]);
  return json;
}

Json lives_json(const std::vector<lm::Life>& lives) {
  Json list = Json::array();
  for (const lm::Life& life : lives) {
    list.push_back(Json::object({{"name", life.name},
                                 {"category", name_of(life.category)},
                                 {"dtype", life.type.empty() ? Json() : Json(life.type)},
                                 {"bytes", life.bytes},
                                 {"at", life.at},
                                 {"from", life.from},
                                 {"to", life.to}}));
  }
  return list;
}

Json row_json(const MemoryRow& row) {
  const lm::BenchCase& one = row.cell.one;
  Json json = Json::object();
  add_model(json, row.cell);
  json.set("pass", name_of_pass(row))
      .set("device", one.place.device == Device::cuda ? "cuda" : "cpu")
      .set("attention", one.attention.empty() ? "auto" : one.attention)
      .set("residual_tensor(B)", lm::residual_bytes(one))
      .set("predicted(B)", row.predicted)
      .set("status", row.figures ? "ok" : "oom");
  if (!row.figures) return json.set("error", row.error);
  const lm::MemoryTimeline& timeline = row.figures->timeline;
  json.set("peak(B)", timeline.peak());
  json.set("peak_operation", timeline.peak_at());
  json.set("peak_by_category(B)", by_category_json(at_peak(timeline)));
  json.set("most_in_use(B)", timeline.most_in_use());
  json.set("most_saved(B)", timeline.most_saved());
  if (row.seconds) json.set("step_min(ms)", 1e3 * *row.seconds).set("skipped", row.skipped);
  json.set("counted(B)", row.figures->counted);
  json.set("driver(B)", row.figures->driver ? Json(*row.figures->driver) : Json());
  Json operations = Json::array(), moments = Json::array();
  for (const std::string& operation : timeline.operations) operations.push_back(operation);
  for (const lm::ByCategory& moment : timeline.moments) {
    Json bytes = Json::array();
    for (const std::size_t one_category : moment) bytes.push_back(one_category);
    moments.push_back(bytes);
  }
  json.set("operations", operations);
  json.set("allocations", lives_json(timeline.allocations));
  json.set("tensors_of_the_run", lives_json(timeline.tensors));
  return json.set("held_by_operation_and_category(B)", moments);
}

// Null where the pass did not fit.
Json peak_json(const MemoryRow& row) { return row.figures ? Json(row.figures->timeline.peak()) : Json(); }

Json table_json(const std::vector<MemoryCell>& cells) {
  Json table = Json::array();
  for (const MemoryCell& cell : cells) {
    const lm::BenchCase& one = cell.step.cell.one;
    table.push_back(Json::object({{"size", cell.step.cell.size},
                                  {"context", one.shape.context},
                                  {"batch", one.batch},
                                  {"precision", name_of(one.precision)},
                                  {"recompute", name_of(one.recompute)},
                                  {"forward_peak(B)", peak_json(cell.forward)},
                                  {"forward_predicted(B)", cell.forward.predicted},
                                  {"step_peak(B)", peak_json(cell.step)},
                                  {"step_predicted(B)", cell.step.predicted},
                                  {"residual_tensor(B)", lm::residual_bytes(one)}}));
  }
  return table;
}

}  // namespace

std::string memory_document(const std::vector<MemoryCell>& cells) {
  Json items = Json::array(), categories = Json::array();
  for (const MemoryCell& cell : cells) {
    for (const MemoryRow* const row : {&cell.forward, &cell.step}) items.push_back(row_json(*row));
  }
  for (std::size_t i = 0; i < lm::kCategories; ++i) categories.push_back(name_of(static_cast<Category>(i)));
  const Json document = Json::object(
      {{"environment", environment_json()}, {"table", table_json(cells)}, {"categories", categories}, {"rows", items}});
  return document.dump(1) + "\n";
}

report::MemoryMap memory_map(const MemoryRow& row) {
  const lm::MemoryTimeline& timeline = row.figures->timeline;
  report::MemoryMap map;
  map.title = title_of(row);
  map.caption = fmt::format("most held {}, most in use {}, one tensor of the residual stream {}",
                            report::bytes_text(timeline.peak()), report::bytes_text(timeline.most_in_use()),
                            report::bytes_text(lm::residual_bytes(row.cell.one)));
  map.operations = timeline.operations;
  map.bytes = timeline.peak();
  map.peak_at = timeline.peak_at();
  for (std::size_t i = 0; i + 1 < lm::kCategories; ++i) map.categories.emplace_back(name_of(static_cast<Category>(i)));
  static constexpr const char* kPhases[] = {"forward", "backward", "update"};
  for (std::size_t i = 0; i < timeline.phases.size(); ++i) {
    if (i > 0 && timeline.phases[i] == timeline.phases[i - 1]) continue;
    map.parts.push_back({kPhases[static_cast<int>(timeline.phases[i])], static_cast<int>(i)});
  }
  const auto add = [&](const lm::Life& life, std::size_t above) {
    if (life.to < 0) return;  // freed before the first operation
    map.blocks.push_back({.name = life.type.empty() ? life.name : fmt::format("{} ({})", life.name, life.type),
                          .category = static_cast<std::size_t>(life.category),
                          .at = above + life.at,
                          .bytes = life.bytes,
                          .from = std::max(0, life.from),
                          .to = life.to});
  };
  for (const lm::Life& life : timeline.allocations) {
    if (life.category != Category::idle) add(life, 0);
  }
  for (const lm::Life& life : timeline.tensors) add(life, timeline.run_at);
  return map;
}

}  // namespace strobe::cli
