// Flags for the architecture and dimensions of a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/options.h"
#include "lm/models/shape.h"

namespace strobe::cli {

struct ShapeFlags {
  std::optional<std::string> size;
  std::optional<lm::Architecture> architecture;
  Given<lm::ModelShape> numbers;
};

// Returns the option --arch. `otherwise` is the help's text about the default: "default: ...".
Option make_arch_option(std::optional<lm::Architecture>& target, const char* otherwise);

// Adds --size, --arch, --context and the dimension flags. `default_size` is the default of --size in the help.
void add_shape_options(OptionTable& table, ShapeFlags& flags, const char* default_size = "tiny");

// Adds --d-model, --d-ff, --layers, --heads and --vocabulary. `default_vocabulary` describes the default of
// --vocabulary.
void add_dimension_options(OptionTable& table, ShapeFlags& flags, const char* default_vocabulary);

// Returns the name of a size with the values, except the context, that differ from the size's defaults: "small",
// "small (gpt2, layers 2)".
std::string model_text(const std::string& size, const lm::ModelShape& shape);

// Applies the flags to `base`, or to the size that --size names.
lm::ModelShape shape_from(const ShapeFlags& flags, lm::ModelShape base);

}  // namespace strobe::cli
