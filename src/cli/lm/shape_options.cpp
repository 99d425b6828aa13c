#include "cli/lm/shape_options.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace strobe::cli {
namespace {

Option number_option(const char* name, std::vector<std::string> aliases, std::string help,
                     std::optional<std::int64_t>& target, std::int64_t most = lm::kMostOfShape) {
  return {.name = name,
          .aliases = std::move(aliases),
          .placeholder = "N",
          .help = std::move(help),
          .apply = [&target, most](auto flag, auto value) { target = parse_integer(flag, value, 1, most); }};
}

}  // namespace

Option make_arch_option(std::optional<lm::Architecture>& target, const char* otherwise) {
  return {.name = "arch",
          .placeholder = "NAME",
          .help = fmt::format("the network: {}; {}", fmt::join(lm::architecture_names(), " or "), otherwise),
          .apply = [&target](auto flag, auto value) {
            target = lm::architecture_of(parse_word(flag, value, lm::architecture_names()));
          }};
}

void add_shape_options(OptionTable& table, ShapeFlags& flags, const char* default_size) {
  table.add("size", "NAME",
            fmt::format("{}; default {}; the next seven change it", fmt::join(lm::size_names(), ", "), default_size),
            word_into(flags.size, lm::size_names()));
  table.add(make_arch_option(flags.architecture, "default: the size's own"));
  table.add(number_option("context", {"context-length"}, "tokens of a sequence", flags.context));
  add_dimension_options(table, flags, "the size's, or 256 of a text to train on");
}

void add_dimension_options(OptionTable& table, ShapeFlags& flags, const char* default_vocabulary) {
  table.add(number_option("d-model", {}, "width of the residual stream", flags.d_model));
  table.add(number_option("d-ff", {}, "width of the feed-forward layer", flags.d_ff));
  table.add(number_option("layers", {"num-layers"}, "blocks", flags.layers, lm::kMostLayers));
  table.add(number_option("heads", {"num-heads"}, "heads of attention; they divide the width", flags.heads));
  table.add(number_option("vocabulary", {"vocab-size"},
                          fmt::format("tokens that the model knows; default: {}", default_vocabulary),
                          flags.vocabulary));
}

std::string model_text(const std::string& size, const lm::ModelShape& shape) {
  const lm::ModelShape own = lm::shape_of(size);
  std::vector<std::string> others;
  if (shape.architecture != own.architecture) others.emplace_back(lm::name_of(shape.architecture));
  for (const lm::Dimension& one : lm::dimensions()) {
    if (shape.*one.value != own.*one.value) others.push_back(fmt::format("{} {}", one.name, shape.*one.value));
  }
  return others.empty() ? size : fmt::format("{} ({})", size, fmt::join(others, ", "));
}

lm::ModelShape shape_from(const ShapeFlags& flags, lm::ModelShape base) {
  if (flags.size) base = lm::shape_of(*flags.size);
  base.architecture = flags.architecture.value_or(base.architecture);
  const auto put = [](const std::optional<std::int64_t>& flag, std::int64_t& target) {
    target = flag.value_or(target);
  };
  put(flags.d_model, base.d_model);
  put(flags.d_ff, base.d_ff);
  put(flags.layers, base.layers);
  put(flags.heads, base.heads);
  put(flags.vocabulary, base.vocabulary);
  put(flags.context, base.context);
  lm::check(base);
  return base;
}

}  // namespace strobe::cli
