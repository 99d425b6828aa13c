#include "cli/lm_shape_options.h"

#include <fmt/format.h>

namespace strobe::cli {
namespace {

constexpr std::int64_t kMostSizeOfShape = std::int64_t{1} << 20;

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
  const auto add_number = [&](const char* name, std::vector<std::string> aliases, const char* help,
                              std::optional<std::int64_t>& target) {
    table.add(
        {.name = name,
         .aliases = std::move(aliases),
         .placeholder = "N",
         .help = help,
         .apply = [&target](auto flag, auto value) { target = parse_integer(flag, value, 1, kMostSizeOfShape); }});
  };
  table.add(
      {.name = "size",
       .placeholder = "NAME",
       .help = fmt::format("{}; default {}; the next seven change it", fmt::join(lm::size_names(), ", "), default_size),
       .apply = [&](auto flag, auto value) { flags.size = parse_word(flag, value, lm::size_names()); }});
  table.add(make_arch_option(flags.architecture, "default: the size's own"));
  add_number("context", {"context-length"}, "tokens of a sequence", flags.context);
  add_number("d-model", {}, "width of the residual stream", flags.d_model);
  add_number("d-ff", {}, "width of the feed-forward layer", flags.d_ff);
  add_number("layers", {"num-layers"}, "blocks", flags.layers);
  add_number("heads", {"num-heads"}, "heads of attention; they divide the width", flags.heads);
  add_number("vocabulary", {"vocab-size"},
             "tokens that the model knows; default: the size's, or 256 of a text to train on", flags.vocabulary);
}

std::string model_text(const std::string& size, lm::Architecture architecture) {
  if (architecture == lm::shape_of(size).architecture) return size;
  return fmt::format("{} ({})", size, lm::name_of(architecture));
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
