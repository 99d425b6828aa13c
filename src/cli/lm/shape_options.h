// Flags that say how large a model is.
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

// --arch; what it is where the flag is left out: "default: ...".
Option make_arch_option(std::optional<lm::Architecture>& target, const char* otherwise);

// default_size: what the help says of a --size that is not given.
void add_shape_options(OptionTable& table, ShapeFlags& flags, const char* default_size = "tiny");

// Of these --d-model, --d-ff, --layers, --heads and --vocabulary. default_vocabulary: what the help says of the last.
void add_dimension_options(OptionTable& table, ShapeFlags& flags, const char* default_vocabulary);

// A size as tables name it, with what is not the size's own but the context: "small", "small (gpt2, layers 2)".
std::string model_text(const std::string& size, const lm::ModelShape& shape);

// `base` with what the flags say; base itself is that of --size where it was given.
lm::ModelShape shape_from(const ShapeFlags& flags, lm::ModelShape base);

}  // namespace strobe::cli
