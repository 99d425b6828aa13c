#include "cli/lm_matmul_text.h"

#include <fmt/format.h>

#include <vector>

#include "core/text_table.h"
#include "lm/profile/profile.h"

namespace strobe::cli {
namespace {

using lm::MatmulTime;
using lm::Phase;

constexpr const char* kFusedNote =
    "fused attention computes its matmuls and softmax in one kernel: rows and columns \"with attention\" count all of "
    "it;\n--attention standard times them apart\n";

struct Span {
  const char* title;
  const char* key;  // in JSON
  MatmulTime time;
};

std::vector<Span> spans_of(const lm::Profile& profile) {
  return {{"forward", "forward", matmul_time(profile, {Phase::forward})},
          {"backward", "backward", matmul_time(profile, {Phase::backward})},
          {"forward and backward", "forward_backward", matmul_time(profile, {Phase::forward, Phase::backward})},
          {"step", "step", matmul_time(profile, {Phase::forward, Phase::backward, Phase::update})}};
}

std::string percent(double share) { return fmt::format("{:.1f}", 100 * share); }

}  // namespace

std::string matmul_table(const lm::Profile& profile) {
  const bool is_fused = is_attention_fused(profile);
  const std::vector<Span> spans = spans_of(profile);
  TextTable table;
  table.add_column("share of time, %", TextTable::Align::left);
  for (const Span& span : spans) table.add_column(span.title);
  const auto add = [&](std::string name, auto share_of) {
    std::vector<std::string> cells = {std::move(name)};
    for (const Span& span : spans) cells.push_back(percent(share_of(span.time)));
    table.add_row(std::move(cells));
  };
  const auto add_part = [&](const char* name, double MatmulTime::*part) {
    add(name, [&](const MatmulTime& time) { return time.all() > 0 ? time.*part / time.all() : 0; });
  };
  add_part("matmuls of linear layers", &MatmulTime::linear);
  if (!is_fused) add_part("matmuls of attention", &MatmulTime::attention_matmuls);
  add_part(is_fused ? "attention, fused" : "rest of attention", &MatmulTime::attention_rest);
  add_part("other", &MatmulTime::other);
  add("matmuls, with attention", [&](const MatmulTime& time) { return time.share_with_attention(is_fused); });
  return table.text() + (is_fused ? kFusedNote : "");
}

std::string matmul_summary(std::span<const lm::NamedProfile> profiles) {
  TextTable table;
  table.add_column("share of matmuls, %", TextTable::Align::left);
  for (const char* column : {"forward", "backward", "step"}) table.add_column(column);
  for (const char* column : {"with attention: forward", "backward", "step"}) table.add_column(column);
  bool any_fused = false;
  for (const lm::NamedProfile& one : profiles) {
    const bool is_fused = is_attention_fused(one.profile);
    any_fused |= is_fused;
    const MatmulTime times[] = {matmul_time(one.profile, {Phase::forward}), matmul_time(one.profile, {Phase::backward}),
                                matmul_time(one.profile, {Phase::forward, Phase::backward, Phase::update})};
    std::vector<std::string> cells = {one.name};
    for (const MatmulTime& time : times) cells.push_back(percent(time.linear_share()));
    for (const MatmulTime& time : times) cells.push_back(percent(time.share_with_attention(is_fused)));
    table.add_row(std::move(cells));
  }
  return table.text() + (any_fused ? kFusedNote : "");
}

Json matmul_shares_json(const lm::Profile& profile) {
  const bool is_fused = is_attention_fused(profile);
  const double ms = 1e3 / static_cast<double>(profile.steps.size());
  Json shares = Json::object();
  for (const Span& span : spans_of(profile)) {
    shares.set(span.key, Json::object({{"linear", span.time.linear_share()},
                                       {"with_attention", span.time.share_with_attention(is_fused)},
                                       {"linear(ms)", ms * span.time.linear},
                                       {"attention_matmuls(ms)", ms * span.time.attention_matmuls},
                                       {"attention_rest(ms)", ms * span.time.attention_rest},
                                       {"other(ms)", ms * span.time.other}}));
  }
  return shares;
}

}  // namespace strobe::cli
