// Implements `strobe precision`: prints rounding errors of fp16, bf16 and fp32 in sums, in LayerNorm and in a
// mixed-precision model.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "app/help.h"
#include "app/options.h"
#include "app/terminal.h"
#include "cli/verbs.h"
#include "lm/precision/rounding.h"
#include "lm/precision/toy_model.h"
#include "results/table.h"

namespace strobe::cli {
namespace {

constexpr const char* kPrecisionIntroduction =
    "usage: strobe precision\n\n"
    "Runs three small experiments: 0.01 added a thousand times in different types; the type of each tensor of a small\n"
    "model in mixed precision, read from the tensors after a step; and the error of LayerNorm in each type.\n\n";

std::string accumulation_text() {
  Table table{.columns = {left("0.01 in"), left("added to"), "1000 times"}};
  for (const lm::Accumulation& one : lm::accumulate_hundredths()) {
    table.cells.push_back({std::string(name_of(one.term)) + (one.widened ? ", widened to fp32" : ""), name_of(one.sum),
                           fmt::format("{:.4f}", one.result)});
  }
  return table.text();
}

std::string shape_text(const lm::ToyTensor& tensor) { return fmt::format("[{}, {}]", tensor.rows, tensor.columns); }

std::string types_text() {
  std::vector<lm::ToyModel> models;
  std::vector<double> losses;
  Table table{.columns = {left("fc1 - LayerNorm - fc2"), left("shape")}};
  for (const DType low : {DType::fp16, DType::bf16}) {
    models.emplace_back(low);
    losses.push_back(models.back().loss_with_gradients());
    table.columns.push_back(left(fmt::format("mixed {}", name_of(low))));
  }
  for (std::size_t i = 0; i < lm::ToyModel::kPlaces; ++i) {
    const lm::ToyTensor &half = models[0].tensors()[i], &brain = models[1].tensors()[i];
    table.cells.push_back({half.name, shape_text(half), name_of(half.dtype), name_of(brain.dtype)});
  }
  return table.text() + fmt::format("loss: {:.6f} and {:.6f}; {:.6f} in fp32\n", losses[0], losses[1],
                                    lm::ToyModel(DType::fp32).loss_with_gradients());
}

std::string error_text() {
  constexpr std::array<double, 2> kDeviations{1, 300};
  constexpr int kWidth = 1024;
  Table table{.columns = {left("LayerNorm of"), "deviation", "in that type throughout", "fp32 inside"}};
  const auto number = [](double value) { return std::isfinite(value) ? fmt::format("{:.1e}", value) : "not finite"; };
  for (const lm::LayerNormError& error : lm::layer_norm_errors(kDeviations, kWidth)) {
    table.cells.push_back({name_of(error.dtype), fmt::format("{}", error.deviation), number(error.throughout),
                           number(error.fp32_inside)});
  }
  return table.text() +
         fmt::format("largest difference from float64 on the same numbers, rows of {} elements\n", kWidth);
}

}  // namespace

int run_precision(Arguments arguments) {
  const OptionTable table;
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(kPrecisionIntroduction);
    return kFine;
  }
  print(accumulation_text() + "\n" + types_text() + "\n" + error_text());
  return kFine;
}

}  // namespace strobe::cli
