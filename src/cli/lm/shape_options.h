// Flags of a model's size.
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

// --arch. `otherwise` describes the default in the help: "default: ...".
Option make_arch_option(std::optional<lm::Architecture>& target, const char* otherwise);

// `default_size` is the default of --size that the help shows.
void add_shape_options(OptionTable& table, ShapeFlags& flags, const char* default_size = "tiny");

// Adds --d-model, --d-ff, --layers, --heads and --vocabulary. `default_vocabulary` describes the last one's default.
void add_dimension_options(OptionTable& table, ShapeFlags& flags, const char* default_vocabulary);

// A size as tables name it, with overrides except the context: "small", "small (gpt2, layers 2)".
std::string model_text(const std::string& size, const lm::ModelShape& shape);

// Applies the flags to `base`, which --size replaces if it is given.
lm::ModelShape shape_from(const ShapeFlags& flags, lm::ModelShape base);

}  // namespace strobe::cli
