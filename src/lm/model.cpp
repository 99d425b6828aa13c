// Implements Model: copies tokens in, runs forward, backward and update, and returns losses.
#include "lm/model.h"

#include <algorithm>

#include "core/fail.h"
#include "ops/cross_entropy.h"

namespace strobe::lm {

using ops::Into;
using LossOnly = Transformer::LossOnly;

// --- construction ----------------------------------------------------------------------------------------------------

namespace {

TransformerOptions checked(const ModelShape& shape, std::int64_t batch, DType dtype, const ModelOptions& options) {
  constexpr std::int64_t kMost = 1 << 20;
  if (batch < 1 || batch > kMost) fail(ErrorCode::invalid_argument, "lm: batch {}; valid: 1 to {}", batch, kMost);
  if (options.gradients == GradientMemory::over_copies && options.optimizer == OptimizerMemory::outside) {
    fail(ErrorCode::invalid_argument,
         "lm: gradients share memory with parameter copies, which an outside optimizer does not support");
  }
  return {.shape = shape,
          .batch = batch,
          .dtype = dtype,
          .attention = options.attention,
          .gradients = options.gradients,
          .recompute = options.recompute};
}

// Returns the tag of the workspace: kMatmulsTag if some matmul needs more than kWorkspaceBytes, for transposed copies
// of its operands (ops/linear.cpp), otherwise kWorkspaceTag.
const char* workspace_tag(const TransformerOptions& options, const ops::ExecutionContext& execution) {
  return matmul_workspace_bytes(options, execution) > ops::kWorkspaceBytes ? kMatmulsTag : kWorkspaceTag;
}

ops::ExecutionContext with(ops::ExecutionContext execution, const GpuStream* stream, const Memory& workspace) {
  if (!stream) return execution;
  execution.stream = stream->handle();
  execution.workspace = workspace.data();
  execution.workspace_bytes = workspace.bytes();
  return execution;
}

}  // namespace

Model::Model(const ModelShape& shape, std::int64_t batch, DType dtype, const ops::ExecutionContext& execution,
             const ModelOptions& options)
    : transformer_(checked(shape, batch, dtype, options)),
      stream_(execution.device == Device::cuda ? std::optional<GpuStream>(std::in_place, GpuStream::Priority::first)
                                               : std::nullopt),
      state_(transformer_, options.optimizer, stream()),
      workspace_(stream(), stream_ ? workspace_bytes(transformer_.options(), execution) : 0,
                 workspace_tag(transformer_.options(), execution)),
      transfer_(stream(), transformer_.tokens()),
      execution_(with(execution, stream(), workspace_)),
      optimizer_(transformer_, state_, transfer_, execution_, stream()) {
  const Transfer::Side device = transfer_.device();
  transformer_.bind({.arena = state_.arena(),
                     .values = state_.values(),
                     .gradients = state_.gradients(),
                     .weights = state_.weights(),
                     .rope = state_.rope(),
                     .tokens = device.tokens(),
                     .targets = device.targets(),
                     .losses = device.losses(),
                     .loss_scale = &device.update()->loss_scale},
                    execution_, stream());
}

void Model::begin(std::uint64_t seed) {
  state_.begin(seed, execution_);
  optimizer_.loss_scale = {};
}

void Model::begin_at_zero() {
  state_.begin_at_zero(execution_);
  optimizer_.loss_scale = {};
}

// --- losses and gradients --------------------------------------------------------------------------------------------

double Model::loss(const std::int32_t* tokens, const std::int32_t* targets) {
  return loss_of_first(tokens, targets, transformer_.tokens());
}

double Model::loss_of_first(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t counted) {
  take(tokens, targets);
  run(loss_, [&] {
    transformer_.forward();
    transformer_.cross_entropy(LossOnly::yes);
  });
  return ops::mean_of(transfer_.host().losses(), counted);
}

double Model::loss_with_gradients(const std::int32_t* tokens, const std::int32_t* targets, float gradient_scale) {
  state_.check_has_backward("gradients");
  if (state_.gradient_memory() != GradientMemory::own) {
    fail(ErrorCode::unsupported, "lm: gradients that share memory with activations cannot be accumulated");
  }
  take(tokens, targets);
  transfer_.host().update()->loss_scale = gradient_scale;
  run(gradients_, [&] { forward_and_backward(Into::sum); });
  return mean_loss();
}

double Model::loss_and_lone_gradients(const std::int32_t* tokens, const std::int32_t* targets, float gradient_scale) {
  state_.check_gradients_apart("gradients without an update");
  take(tokens, targets);
  transfer_.host().update()->loss_scale = gradient_scale;
  run(lone_gradients_, [&] { forward_and_backward(Into::set); });
  return mean_loss();
}

void Model::forward_and_backward(Into into) {
  transformer_.forward();
  transformer_.cross_entropy(LossOnly::no);
  transformer_.backward(into);
}

// --- a training step -------------------------------------------------------------------------------------------------

StepResult Model::step(const std::int32_t* tokens, const std::int32_t* targets, const StepOptions& options) {
  state_.check_has_backward("step");
  state_.check_optimizer("step");
  take(tokens, targets);
  optimizer_.begin_step(options);
  // A recorder requires operations one after the other, so with a recorder the update runs last.
  const auto overlaps = [&] { return optimizer_.may_overlap() && replay_stream() && !transformer_.is_recorded(); };
  const auto update_overlapped = [&](std::size_t first, std::size_t last) {
    optimizer_.update_overlapped(first, last);
  };
  try {
    run(steps_[static_cast<int>(optimizer_.kind())], [&] {
      if (!overlaps()) {
        forward_and_backward(Into::set);
        return optimizer_.apply();
      }
      transformer_.forward();
      transformer_.cross_entropy(LossOnly::no);
      transformer_.backward(Into::set, update_overlapped);
      optimizer_.join();
    });
  } catch (...) {
    optimizer_.settle();
    throw;
  }
  return optimizer_.end_step(mean_loss());
}

void Model::run_phase(Phase phase) {
  state_.check_has_backward("phases of a step");
  if (phase == Phase::update) state_.check_optimizer("update");
  const bool with_norm = phase == Phase::update && optimizer_.kind() != Optimizer::Kind::plain;
  phases_[static_cast<int>(phase) + (with_norm ? 1 : 0)].run(replay_stream(), [&] {
    switch (phase) {
      case Phase::forward: transformer_.forward(); return transformer_.cross_entropy(LossOnly::no);
      case Phase::backward: return transformer_.backward(Into::set);
      case Phase::update: return optimizer_.apply();
    }
  });
}

bool Model::update_skipped() const {
  transfer_.receive();
  if (stream_) stream_->synchronize();
  return transfer_.host().update()->skip != 0;
}

void Model::update(const ops::AdamW& options) {
  state_.check_optimizer("update");
  state_.check_gradients_apart("update");
  optimizer_.update(options);
}

double Model::gradient_norm(double scale) const {
  state_.check_gradients_apart("the norm of gradients");
  return optimizer_.gradient_norm(scale);
}

// --- tokens in, losses out -------------------------------------------------------------------------------------------

void Model::check_tokens(const char* what, const std::int32_t* tokens) const {
  for (std::int64_t t = 0; t < transformer_.tokens(); ++t) {
    if (tokens[t] < 0 || tokens[t] >= shape().vocabulary) {
      fail(ErrorCode::invalid_argument, "lm: {} {} is {}; valid: 0 to {}", what, t, tokens[t], shape().vocabulary - 1);
    }
  }
}

void Model::take(const std::int32_t* tokens, const std::int32_t* targets) {
  check_tokens("target", targets);
  check_tokens("token", tokens);
  std::copy_n(tokens, transformer_.tokens(), transfer_.host().tokens());
  std::copy_n(targets, transformer_.tokens(), transfer_.host().targets());
}

// Returns the stream for graph replay, or null if kernels must be launched directly. A graph runs no callbacks and
// hides its kernel launches from a profiler.
const GpuStream* Model::replay_stream() const {
  return transformer_.reports_gradients() || launches_ == Launches::direct ? nullptr : stream();
}

void Model::run(Replay& which, const std::function<void()>& work) {
  which.run(replay_stream(), [&] {
    {
      const Recorded scope =
          transformer_.recorded_transfer("tokens to the GPU", Phase::forward, transfer_.sent_bytes());
      transfer_.send();
    }
    work();
    const Recorded scope =
        transformer_.recorded_transfer("losses to the host", transformer_.phase(), transfer_.received_bytes());
    transfer_.receive();
  });
  if (stream_) stream_->synchronize();
}

double Model::mean_loss() const { return ops::mean_of(transfer_.host().losses(), transformer_.tokens()); }

// --- memory ----------------------------------------------------------------------------------------------------------

float* Model::placed_gradients() const {
  state_.check_gradients_apart("gradients");
  return state_.gradients();
}

std::span<float> Model::on_host(float* data) const {
  if (stream_) fail(ErrorCode::unsupported, "lm: the model is in GPU memory; valid: read_state and write_state");
  return {data, state_.count()};
}

}  // namespace strobe::lm
