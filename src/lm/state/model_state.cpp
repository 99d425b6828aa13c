// Implements ModelState: allocates, initialises, reads and writes it.
#include "lm/state/model_state.h"

#include <algorithm>

#include "core/fail.h"
#include "ops/rope.h"

namespace strobe::lm {

namespace {

std::size_t bytes_of(std::int64_t count, DType dtype) { return static_cast<std::size_t>(count) * size_of(dtype); }

}  // namespace

ModelState::ModelState(const Transformer& model, OptimizerMemory optimizer, const GpuStream* stream)
    : model_(model),
      optimizer_memory_(gradient_memory() == GradientMemory::none ? OptimizerMemory::outside : optimizer),
      gradients_at_(gradients_at(model.plan(), model.parameters(), gradient_memory())),
      rope_(stream, float_bytes(model.shape().rope_elements()), kRopeTag),
      values_(stream, float_bytes(parameter_count(model.shape())), kValuesTag),
      mean_(stream, optimizer_memory_ == OptimizerMemory::own ? values_.bytes() : 0, kMeanTag),
      variance_(stream, mean_.bytes(), kVarianceTag),
      copies_(stream, count() * copy_bytes(model.options().dtype, gradient_memory()), kCopiesTag),
      arena_(stream, gradients_at_ + (gradient_memory() == GradientMemory::none ? 0 : values_.bytes()), kArenaTag) {
  const ModelShape& shape = model.shape();
  if (rope_.bytes() > 0) rope_.write(0, ops::rope_table(shape.context, shape.head_dim()).data(), rope_.bytes());
  const std::size_t end = model.parameters().size();
  whole_ = trained(0, end);
  std::size_t begin = 0;
  for (const Copies& copies : model.plan().copies) {
    trained_.push_back(trained(begin, copies.parameter));
    begin = copies.parameter;
  }
  trained_.push_back(trained(begin, end));
}

// --- begin -----------------------------------------------------------------------------------------------------------

void ModelState::begin(std::uint64_t seed, const ops::ExecutionContext& execution) {
  std::vector<float> values;
  for (const Parameter& parameter : model_.parameters()) {
    values.resize(static_cast<std::size_t>(parameter.count()));
    begin_values(parameter, seed, execution.threads, values.data());
    values_.write(float_bytes(parameter.first), values.data(), float_bytes(parameter.count()));
  }
  begin_rest(execution);
}

void ModelState::begin_at_zero(const ops::ExecutionContext& execution) {
  values_.clear();
  begin_rest(execution);
}

void ModelState::begin_rest(const ops::ExecutionContext& execution) {
  if (gradient_memory() == GradientMemory::own || gradient_memory() == GradientMemory::shared) clear_gradients();
  mean_.clear();
  variance_.clear();
  round_copies(execution);
}

void ModelState::clear_gradients() {
  check_gradients_apart("clearing gradients");
  arena_.clear(gradients_at_, arena_.bytes() - gradients_at_);
}

// --- checks ----------------------------------------------------------------------------------------------------------

void ModelState::check_optimizer(const char* what) const {
  if (optimizer_memory_ == OptimizerMemory::own) return;
  fail(ErrorCode::unsupported, "lm: {}: the model keeps no optimizer state; valid: OptimizerMemory::own", what);
}

void ModelState::check_has_backward(const char* what) const {
  if (gradient_memory() != GradientMemory::none) return;
  fail(ErrorCode::unsupported, "lm: {}: the model has no gradients; valid: loss()", what);
}

void ModelState::check_gradients_apart(const char* what) const {
  check_has_backward(what);
  if (gradient_memory() != GradientMemory::over_copies) return;
  fail(ErrorCode::unsupported, "lm: {}: gradients share memory with matmul operands and are valid only within a step",
       what);
}

std::size_t ModelState::checked_offset(std::int64_t first, std::size_t size) const {
  if (first < 0 || size > count() || static_cast<std::size_t>(first) > count() - size) {
    fail(ErrorCode::invalid_argument, "lm: {} floats of a state from {} on; valid: within {}", size, first, count());
  }
  return float_bytes(first);
}

// --- read and write --------------------------------------------------------------------------------------------------

const Memory& ModelState::memory(State which) const {
  return which == State::values ? values_ : which == State::mean ? mean_ : variance_;
}

void ModelState::read(State which, std::span<float> out, std::int64_t first) const {
  if (which == State::mean || which == State::variance) check_optimizer("reading moments");
  const std::size_t offset = checked_offset(first, out.size());
  if (which == State::gradients) {
    check_gradients_apart("reading gradients");
    return arena_.read(gradients_at_ + offset, out.data(), out.size_bytes());
  }
  memory(which).read(offset, out.data(), out.size_bytes());
}

// Also updates the copies of written values.
void ModelState::write(const ops::ExecutionContext& execution, State which, std::span<const float> in,
                       std::int64_t first) {
  if (which == State::gradients)
    fail(ErrorCode::invalid_argument, "lm: gradients cannot be written; valid: values, mean, variance");
  if (which != State::values) check_optimizer("writing moments");
  memory(which).write(checked_offset(first, in.size()), in.data(), in.size_bytes());
  const DType dtype = model_.options().dtype;
  if (which != State::values || dtype == DType::fp32) return;
  for (const ops::Trained& one : trained_) {
    const std::int64_t at = one.value - values(), begin = std::max(first, at),
                       end = std::min(first + static_cast<std::int64_t>(in.size()), at + one.count);
    if (begin >= end || !one.copy) continue;
    const ops::Trained part{.count = end - begin,
                            .value = values() + begin,
                            .copy = static_cast<char*>(one.copy) + bytes_of(begin - at, dtype),
                            .copy_dtype = dtype};
    ops::round_copies(execution, {&part, 1});
  }
}

// --- parameters as matmuls and the optimizer use them ----------------------------------------------------------------

void* ModelState::copy_of(std::size_t parameter) const {
  const std::vector<Parameter>& table = model_.parameters();
  const DType dtype = model_.options().dtype;
  if (gradient_memory() != GradientMemory::over_copies) {
    return copies_.as<char>() + bytes_of(table[parameter].first, dtype);
  }
  const Copies* const copies = copies_with(model_.plan(), parameter);
  if (!copies) return nullptr;
  return arena() + model_.plan().table[copies->tensor].first +
         bytes_of(table[parameter].first - table[copies->parameter].first, dtype);
}

std::vector<const void*> ModelState::weights() const {
  std::vector<const void*> weights;
  for (std::size_t i = 0; i < model_.parameters().size(); ++i) {
    weights.push_back(model_.options().dtype == DType::fp32 ? values() + model_.parameters()[i].first : copy_of(i));
  }
  return weights;
}

ops::Trained ModelState::trained(std::size_t begin, std::size_t end) const {
  const Parameter &front = model_.parameters()[begin], &back = model_.parameters()[end - 1];
  const DType dtype = model_.options().dtype;
  return {.count = back.first + back.count() - front.first,
          .value = values() + front.first,
          .gradient = gradient_memory() == GradientMemory::none ? nullptr : gradients() + front.first,
          .mean = mean_.as<float>() + front.first,
          .variance = variance_.as<float>() + front.first,
          .copy = dtype == DType::fp32 ? nullptr : copy_of(begin),
          .copy_dtype = dtype};
}

}  // namespace strobe::lm
