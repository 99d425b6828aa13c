// Parses the flags for the architecture and dimensions of a model.
#include "cli/lm/shape_options.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace strobe::cli {
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
            fmt::format("{}; default {}; the seven flags below override the size", fmt::join(lm::size_names(), ", "),
                        default_size),
            word_into(flags.size, lm::size_names()));
  table.add(make_arch_option(flags.architecture, "default: the size's own"));
  for (const Field<lm::ModelShape>& field : fields<lm::ModelShape>()) {
    if (field.key == "context") add_field(table, field, flags.numbers);
  }
  add_dimension_options(table, flags, "the size's, or 256 for training on text");
}

void add_dimension_options(OptionTable& table, ShapeFlags& flags, const char* default_vocabulary) {
  for (Field<lm::ModelShape> field : fields<lm::ModelShape>()) {
    if (field.key == "context") continue;
    if (field.key == "vocabulary") field.help = fmt::format("size of the vocabulary; default: {}", default_vocabulary);
    add_field(table, field, flags.numbers);
  }
}

std::string model_text(const std::string& size, const lm::ModelShape& shape) {
  const lm::ModelShape own = lm::shape_of(size);
  std::vector<std::string> others;
  if (shape.architecture != own.architecture) others.emplace_back(lm::name_of(shape.architecture));
  for (const Field<lm::ModelShape>& field : fields<lm::ModelShape>()) {
    if (field.key != "context" && field.text(shape) != field.text(own))
      others.push_back(field.key + " " + field.text(shape));
  }
  return others.empty() ? size : fmt::format("{} ({})", size, fmt::join(others, ", "));
}

lm::ModelShape shape_from(const ShapeFlags& flags, lm::ModelShape base) {
  if (flags.size) base = lm::shape_of(*flags.size);
  base.architecture = flags.architecture.value_or(base.architecture);
  flags.numbers.apply_to(base);
  lm::check(base);
  return base;
}

}  // namespace strobe::cli
