// Defines the named sizes, checks shapes and counts their parameters.
#include "lm/models/shape.h"

#include <fmt/format.h>

#include <array>

#include "core/fail.h"

namespace strobe {

template <>
std::span<const Field<lm::ModelShape>> fields<lm::ModelShape>() {
  using lm::ModelShape, lm::kMostOfShape;
  static const Field<ModelShape> all[] = {
      integer_field<ModelShape>({"d_model", 1, kMostOfShape}, &ModelShape::d_model, "width of the residual stream"),
      integer_field<ModelShape>({"d_ff", 1, kMostOfShape}, &ModelShape::d_ff, "width of the feed-forward layer"),
      integer_field<ModelShape>({"layers", 1, lm::kMostLayers}, &ModelShape::layers, "blocks", {"num-layers"}),
      integer_field<ModelShape>({"heads", 1, kMostOfShape}, &ModelShape::heads,
                                "attention heads; must divide the width", {"num-heads"}),
      integer_field<ModelShape>({"vocabulary", 1, kMostOfShape}, &ModelShape::vocabulary, "size of the vocabulary",
                                {"vocab-size"}),
      integer_field<ModelShape>({"context", 1, kMostOfShape}, &ModelShape::context, "tokens per sequence",
                                {"context-length"}),
  };
  return all;
}

}  // namespace strobe

namespace strobe::lm {
namespace {

struct NamedShape {
  const char* name;
  ModelShape shape;
};

constexpr std::int64_t kMostHeadDim = 256;

const std::array<NamedShape, 7>& sizes() {
  static const std::array<NamedShape, 7> table{{
      {"tiny", {.d_model = 128, .d_ff = 512, .layers = 4, .heads = 4, .vocabulary = 256, .context = 128}},
      {"small", {.d_model = 768, .d_ff = 3072, .layers = 12, .heads = 12}},
      {"medium", {.d_model = 1024, .d_ff = 4096, .layers = 24, .heads = 16}},
      {"large", {.d_model = 1280, .d_ff = 5120, .layers = 36, .heads = 20}},
      {"xl", {.d_model = 1600, .d_ff = 6400, .layers = 48, .heads = 25}},
      {"2.7B", {.d_model = 2560, .d_ff = 10240, .layers = 32, .heads = 32}},
      {"ddp-small",
       {.d_model = 512,
        .d_ff = 2048,
        .layers = 12,
        .heads = 8,
        .vocabulary = 32'000,
        .context = 512,
        .architecture = Architecture::gpt2}},
  }};
  return table;
}

// Returns the number of elements of all parameters whose role `counts` accepts.
template <class Counts>
std::int64_t count_of(const ModelShape& shape, Counts counts) {
  const auto sum = [&](std::span<const ParameterRow> rows) {
    std::int64_t elements = 0;
    for (const ParameterRow& row : rows) elements += counts(row.role) ? shape.at(row.rows) * shape.at(row.columns) : 0;
    return elements;
  };
  const Definition& definition = shape.definition();
  return sum(definition.before_blocks) + shape.layers * sum(definition.block) + sum(definition.after_blocks);
}

}  // namespace

std::vector<std::string> size_names() {
  std::vector<std::string> names;
  for (const NamedShape& one : sizes()) names.emplace_back(one.name);
  return names;
}

ModelShape shape_of(std::string_view size) {
  for (const NamedShape& one : sizes()) {
    if (size == one.name) return one.shape;
  }
  fail(ErrorCode::invalid_argument, "--size {}: no such size; valid: {}", size, fmt::join(size_names(), ", "));
}

void check(const ModelShape& shape) {
  const struct {
    const char* name;
    std::int64_t value, most;
  } limits[] = {{"d_model", shape.d_model, kMostOfShape},       {"d_ff", shape.d_ff, kMostOfShape},
                {"layers", shape.layers, kMostLayers},          {"heads", shape.heads, kMostOfShape},
                {"vocabulary", shape.vocabulary, kMostOfShape}, {"context", shape.context, kMostOfShape}};
  for (const auto& [name, value, most] : limits) {
    if (value < 1 || value > most) {
      fail(ErrorCode::invalid_argument, "lm: {} {}; valid: 1 to {}", name, value, most);
    }
  }
  if (shape.d_model % shape.heads != 0) {
    fail(ErrorCode::invalid_argument, "lm: {} heads do not divide d_model {}", shape.heads, shape.d_model);
  }
  const bool pairs = shape.definition().has_rope;
  if ((pairs && shape.head_dim() % 2 != 0) || shape.head_dim() > kMostHeadDim) {
    fail(ErrorCode::invalid_argument, "lm: d_model {} over {} heads is a head dimension of {}; valid: {}up to {}",
         shape.d_model, shape.heads, shape.head_dim(), pairs ? "even, " : "", kMostHeadDim);
  }
}

std::int64_t parameter_count(const ModelShape& shape) {
  return count_of(shape, [](Role) { return true; });
}

std::int64_t matmul_parameter_count(const ModelShape& shape) {
  return count_of(shape, [](Role role) { return role == Role::linear; });
}

}  // namespace strobe::lm
