// What Model keeps, and a step around its network.
#include <algorithm>
#include <array>
#include <limits>

#include "core/fail.h"
#include "lm/model.h"
#include "ops/cross_entropy.h"
#include "ops/linear.h"

namespace strobe::lm {

namespace {

std::int64_t checked(std::int64_t batch) {
  constexpr std::int64_t kMost = 1 << 20;
  if (batch < 1 || batch > kMost) fail(ErrorCode::invalid_argument, "lm: batch {}; valid: 1 to {}", batch, kMost);
  return batch;
}

const ModelOptions& checked(const ModelOptions& options) {
  if (options.gradients == GradientMemory::over_copies && options.optimizer == OptimizerMemory::outside) {
    fail(ErrorCode::invalid_argument, "lm: gradients over copies, and an optimizer outside that knows nothing of them");
  }
  return options;
}

std::size_t bytes_of(std::int64_t count, DType dtype) { return static_cast<std::size_t>(count) * size_of(dtype); }

}  // namespace

Model::Model(const ModelShape& shape, std::int64_t batch, DType dtype, const ops::Place& place,
             const ModelOptions& options)
    : shape_(shape),
      batch_(checked(batch)),
      tokens_(batch * shape.context),
      dtype_(dtype),
      place_(place),
      attention_(checked(options).attention),
      parameters_(parameter_table(shape)),
      plan_(activation_plan(shape, batch, dtype,
                            {.recompute = options.recompute,
                             .gradients = options.gradients,
                             .attention = attention_memory_of(options.attention)})),
      gradient_memory_(options.gradients),
      optimizer_memory_(options.gradients == GradientMemory::none ? OptimizerMemory::outside : options.optimizer),
      recompute_(options.recompute),
      gradients_at_(gradients_at(plan_, parameters_, options.gradients)),
      stream_(place.device == Device::cuda ? std::optional<GpuStream>(std::in_place, GpuStream::Priority::first)
                                           : std::nullopt),
      rope_(stream(), bytes_of(shape.turns(), DType::fp32), kRopeTag),
      values_(stream(), bytes_of(parameter_count(shape), DType::fp32), kValuesTag),
      mean_(stream(), optimizer_memory_ == OptimizerMemory::own ? values_.bytes() : 0, kMeanTag),
      variance_(stream(), mean_.bytes(), kVarianceTag),
      copies_(stream(), count() * copy_bytes(dtype, options.gradients), kCopiesTag),
      run_(stream(), gradients_at_ + (gradient_memory_ == GradientMemory::none ? 0 : values_.bytes()), kRunTag),
      workspace_(stream(), workspace_bytes_of(), workspace_tag()),
      exchange_(stream(), tokens_) {
  if (stream_) {
    beside_.emplace();
    place_.stream = stream_->handle();
    place_.workspace = workspace_.data();
    place_.workspace_bytes = workspace_.bytes();
  }
  if (shape.turns() > 0) rope_.write(0, ops::rope_table(shape.context, shape.head_dim()).data(), rope_.bytes());
  whole_ = trained(0, parameters_.size());
  std::size_t begin = 0;
  for (const Copies& copies : plan_.copies) {
    trained_.push_back(trained(begin, copies.parameter));
    begin = copies.parameter;
  }
  trained_.push_back(trained(begin, parameters_.size()));
}

ops::MaterialisedAttention materialised_attention(const ModelShape& shape, std::int64_t batch, DType dtype) {
  return {.batch = batch, .heads = shape.heads, .context = shape.context, .head_dim = shape.head_dim(), .dtype = dtype};
}

std::size_t products_workspace_bytes(const ModelShape& shape, std::int64_t tokens, DType dtype, const ops::Place& place,
                                     GradientMemory gradients) {
  const std::int64_t d = shape.d_model;
  std::size_t most = 0;
  for (const ops::Linear& product : {ops::Linear{tokens, d, 3 * d, dtype},
                                     {tokens, d, d, dtype},
                                     {tokens, d, shape.hidden_parts() * shape.d_ff, dtype},
                                     {tokens, shape.d_ff, d, dtype},
                                     {tokens, d, shape.vocabulary, dtype}}) {
    most = std::max(most, ops::linear_workspace_bytes(place, product));
    if (gradients == GradientMemory::none) continue;
    most = std::max(most, ops::linear_backward_workspace_bytes(place, product));
  }
  return most;
}

// On CUDA attention, matmuls and sums use one workspace in turn. On the CPU each allocates its own.
std::size_t Model::workspace_bytes_of() const {
  if (!stream_) return 0;
  std::size_t most = products_workspace_bytes(shape_, tokens_, dtype_, place_, gradient_memory_);
  if (is_materialised()) return most;
  const Attention problem = attention(plan_.blocks[0].qkv);  // its data are not read
  for (const Pass pass : {Pass::forward, Pass::backward}) {
    if (pass == Pass::backward && gradient_memory_ == GradientMemory::none) continue;
    most = std::max(most, strobe::workspace_bytes(problem, pass, execution()));
  }
  return most;
}

// Bytes above kWorkspaceBytes are for transposed copies of matmul operands if any are needed, else for attention.
const char* Model::workspace_tag() const {
  const std::size_t products = products_workspace_bytes(shape_, tokens_, dtype_, place_, gradient_memory_);
  return products > ops::kWorkspaceBytes ? kProductsTag : kWorkspaceTag;
}

std::span<float> Model::on_host(float* data) const {
  if (stream_) fail(ErrorCode::unsupported, "lm: the model's memory is the GPU's; valid: read_state and write_state");
  return {data, count()};
}

void Model::begin(std::uint64_t seed) {
  std::vector<float> values;
  for (const Parameter& parameter : parameters_) {
    values.resize(static_cast<std::size_t>(parameter.count()));
    begin_values(parameter, seed, place_.threads, values.data());
    values_.write(bytes_of(parameter.first, DType::fp32), values.data(), bytes_of(parameter.count(), DType::fp32));
  }
  begin_state();
}

void Model::begin_at_zero() {
  values_.clear();
  begin_state();
}

void Model::begin_state() {
  if (gradient_memory_ == GradientMemory::own || gradient_memory_ == GradientMemory::shared) clear_gradients();
  mean_.clear();
  variance_.clear();
  copy_values();
  loss_scale_ = {};
}

void Model::on_gradient_ready(std::function<void(std::size_t)> ready) { gradient_ready_ = std::move(ready); }

// --- state -----------------------------------------------------------------------------------------------------------

const Memory& Model::memory(State which) const {
  return which == State::values ? values_ : which == State::mean ? mean_ : variance_;
}

void Model::check_optimizer(const char* what) const {
  if (optimizer_memory_ == OptimizerMemory::own) return;
  fail(ErrorCode::unsupported, "lm: {}: the model keeps no optimizer state; valid: OptimizerMemory::own", what);
}

void Model::check_has_backward(const char* what) const {
  if (gradient_memory_ != GradientMemory::none) return;
  fail(ErrorCode::unsupported, "lm: {}: the model has no gradients; valid: loss()", what);
}

void Model::check_gradients_apart(const char* what) const {
  check_has_backward(what);
  if (gradient_memory_ != GradientMemory::over_copies) return;
  fail(ErrorCode::unsupported, "lm: {}: gradients lie over what products read, and last within a step alone", what);
}

double Model::gradient_norm(double scale) const {
  check_gradients_apart("the norm of gradients");
  return ops::gradient_norm(place_, {&whole_, 1}, scale);
}

std::size_t Model::checked_place(std::int64_t first, std::size_t size) const {
  if (first < 0 || size > count() || static_cast<std::size_t>(first) > count() - size) {
    fail(ErrorCode::invalid_argument, "lm: {} floats of a state from {} on; valid: within {}", size, first, count());
  }
  return bytes_of(first, DType::fp32);
}

void Model::read_state(State which, std::span<float> out, std::int64_t first) const {
  if (which == State::mean || which == State::variance) check_optimizer("reading its averages");
  const std::size_t place = checked_place(first, out.size());
  if (which == State::gradients) {
    check_gradients_apart("reading gradients");
    return run_.read(gradients_at_ + place, out.data(), out.size_bytes());
  }
  memory(which).read(place, out.data(), out.size_bytes());
}

void Model::write_state(State which, std::span<const float> in, std::int64_t first) {
  if (which == State::gradients) fail(ErrorCode::invalid_argument, "lm: gradients are read, never written");
  if (which != State::values) check_optimizer("writing its averages");
  memory(which).write(checked_place(first, in.size()), in.data(), in.size_bytes());
  if (which != State::values || dtype_ == DType::fp32) return;
  for (const ops::Trained& one : trained_) {
    const std::int64_t at = one.value - values_.as<float>(), begin = std::max(first, at),
                       end = std::min(first + static_cast<std::int64_t>(in.size()), at + one.count);
    if (begin >= end || !one.copy) continue;
    const ops::Trained part{.count = end - begin,
                            .value = values_.as<float>() + begin,
                            .copy = static_cast<char*>(one.copy) + bytes_of(begin - at, dtype_),
                            .copy_dtype = dtype_};
    ops::round_copies(place_, {&part, 1});
  }
}

void Model::clear_gradients() {
  check_gradients_apart("clearing gradients");
  run_.clear(gradients_at_, run_.bytes() - gradients_at_);
}

const void* Model::weight(std::size_t parameter) const {
  return dtype_ == DType::fp32 ? value(parameter) : copy_of(parameter);
}

void* Model::copy_of(std::size_t parameter) const {
  if (gradient_memory_ != GradientMemory::over_copies) {
    return copies_.as<char>() + bytes_of(parameters_[parameter].first, dtype_);
  }
  const Copies* const copies = copies_with(plan_, parameter);
  if (!copies) return nullptr;
  return static_cast<char*>(at(copies->tensor)) +
         bytes_of(parameters_[parameter].first - parameters_[copies->parameter].first, dtype_);
}

ops::Trained Model::trained(std::size_t begin, std::size_t end) const {
  const std::int64_t first = parameters_[begin].first;
  return {.count = parameters_[end - 1].first + parameters_[end - 1].count() - first,
          .value = values_.as<float>() + first,
          .gradient = gradient_memory_ == GradientMemory::none ? nullptr : gradient(begin),
          .mean = mean_.as<float>() + first,
          .variance = variance_.as<float>() + first,
          .copy = dtype_ == DType::fp32 ? nullptr : copy_of(begin),
          .copy_dtype = dtype_};
}

// --- tokens in, losses out -------------------------------------------------------------------------------------------

void Model::check_tokens(const char* what, const std::int32_t* tokens) const {
  for (std::int64_t t = 0; t < tokens_; ++t) {
    if (tokens[t] < 0 || tokens[t] >= shape_.vocabulary) {
      fail(ErrorCode::invalid_argument, "lm: {} {} is {}; valid: 0 to {}", what, t, tokens[t], shape_.vocabulary - 1);
    }
  }
}

void Model::take(const std::int32_t* tokens, const std::int32_t* targets) {
  check_tokens("target", targets);
  check_tokens("token", tokens);
  std::copy_n(tokens, tokens_, exchange_.host().tokens());
  std::copy_n(targets, tokens_, exchange_.host().targets());
}

// Where every gradient is told of, or launches are looked at one by one, there is no graph.
const GpuStream* Model::replayed_on() const {
  return gradient_ready_ || launches_ == Launches::direct ? nullptr : stream();
}

void Model::run(Replay& which, const std::function<void()>& work) {
  which.run(replayed_on(), [&] {
    send();
    work();
    receive();
  });
  if (stream_) stream_->synchronize();
}

void Model::send() const {
  const Recorded scope = recorded_transfer("tokens to the GPU", Phase::forward, exchange_.sent_bytes());
  exchange_.send();
}

void Model::receive() const {
  const Recorded scope = recorded_transfer("losses to the host", phase_, exchange_.received_bytes());
  exchange_.receive();
}

double Model::mean_loss() const { return ops::mean_of(exchange_.host().losses(), tokens_); }

double Model::loss(const std::int32_t* tokens, const std::int32_t* targets) {
  return loss_of_first(tokens, targets, tokens_);
}

double Model::loss_of_first(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t counted) {
  take(tokens, targets);
  run(loss_, [&] {
    forward();
    cross_entropy(LossOnly::yes);
  });
  return ops::mean_of(exchange_.host().losses(), counted);
}

double Model::loss_with_gradients(const std::int32_t* tokens, const std::int32_t* targets, float gradient_scale) {
  check_has_backward("gradients");
  if (gradient_memory_ != GradientMemory::own) {
    fail(ErrorCode::unsupported, "lm: gradients that share memory with activations cannot be added up");
  }
  take(tokens, targets);
  exchange_.host().update()->loss_scale = gradient_scale;
  run(gradients_, [&] {
    forward();
    cross_entropy(LossOnly::no);
    backward(ops::Into::sum);
  });
  return mean_loss();
}

double Model::loss_and_lone_gradients(const std::int32_t* tokens, const std::int32_t* targets, float gradient_scale) {
  check_gradients_apart("gradients without an update");
  take(tokens, targets);
  exchange_.host().update()->loss_scale = gradient_scale;
  run(lone_gradients_, [&] {
    forward();
    cross_entropy(LossOnly::no);
    backward(ops::Into::set);
  });
  return mean_loss();
}

// --- a step ----------------------------------------------------------------------------------------------------------

void Model::update(const ops::AdamW& options) {
  check_optimizer("update");
  check_gradients_apart("update");
  ops::adamw(place_, options, trained_);
}

StepResult Model::step(const std::int32_t* tokens, const std::int32_t* targets, const StepOptions& options) {
  check_has_backward("step");
  check_optimizer("step");
  take(tokens, targets);
  ops::Update& update = *exchange_.host().update();
  const bool is_scaled = dtype_ == DType::fp16;
  update = ops::update_of(options.adamw);
  const double scale = is_scaled ? loss_scale_.scale : 1;
  update.loss_scale = static_cast<float>(scale);
  update.gradient_scale = static_cast<float>(1 / scale);
  update.most = static_cast<float>(options.clip);
  update.skip_infinite = is_scaled ? 1 : 0;
  update.norm = std::numeric_limits<double>::quiet_NaN();
  const bool is_limited = options.clip > 0 || is_scaled;  // the update depends on the norm
  needs_norm_ = options.needs_norm || is_limited;
  updates_go_beside_ = stream_ && !is_limited && gradient_memory_ != GradientMemory::over_copies;
  try {
    run(is_limited    ? limited_step_
        : needs_norm_ ? step_with_norm_
                      : step_,
        [&] {
          forward();
          cross_entropy(LossOnly::no);
          // Where operations are looked at one by one, the update is one after all others.
          const bool beside = updates_go_beside_ && replayed_on() && !recorder_;
          backward(ops::Into::set, beside ? Updates::beside : Updates::later);
          if (!beside) return apply_gradients();
          beside_->join(*stream_);
          if (needs_norm_) limit_gradients();  // only told: nothing is cut
        });
  } catch (...) {
    if (beside_) beside_->settle();
    throw;
  }
  const bool skipped = update.skip != 0;
  if (is_scaled) skipped ? loss_scale_.overflowed() : loss_scale_.fine();
  return {.loss = mean_loss(), .gradient_norm = update.norm, .skipped = skipped, .skipped_in_all = loss_scale_.skipped};
}

// Nothing of this step reads these parameters any more, and their gradients stay; the bits are those of one update of
// all. AdamW is bound by memory and products are not, at whose ends multiprocessors are idle.
void Model::update_beside(std::size_t first, std::size_t last) {
  if (updates_ == Updates::later) return;
  ops::Place place = place_;
  place.stream = beside_->fork(*stream_).handle();
  const ops::Trained part = trained(first, last);
  ops::adamw(place, exchange_.placed().update(), {&part, 1});
}

void Model::apply_gradients() {
  phase_ = Phase::update;
  if (needs_norm_) limit_gradients();
  update_parameters();
}

void Model::limit_gradients() const {
  const Recorded scope = recorded_update("gradient norm", sizeof(float));
  ops::limit_gradients(place_, {&whole_, 1}, exchange_.placed().update());
}

// Reads values, gradients and state; writes values, state and the copies.
void Model::update_parameters() const {
  const Recorded scope = recorded_update("adamw", 7 * sizeof(float) + (dtype_ == DType::fp32 ? 0 : size_of(dtype_)));
  ops::adamw(place_, exchange_.placed().update(), trained_);
}

void Model::run_phase(Phase phase) {
  check_has_backward("phases of a step");
  if (phase == Phase::update) check_optimizer("update");
  const int with_norm = phase == Phase::update && needs_norm_ ? 1 : 0;
  phases_[static_cast<int>(phase) + with_norm].run(replayed_on(), [&] {
    switch (phase) {
      case Phase::forward: forward(); return cross_entropy(LossOnly::no);
      case Phase::backward: return backward(ops::Into::set);
      case Phase::update: return apply_gradients();
    }
  });
}

}  // namespace strobe::lm
