// Model is a language model that computes losses, gradients and training steps. models/NAME.cpp defines the network,
// state/ the memory, step/ the update. train/, data_parallel/, profile/ and memory/ use Model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lm/models/transformer.h"
#include "lm/state/model_state.h"
#include "lm/step/optimizer.h"
#include "lm/step/streams.h"
#include "lm/step/transfer.h"

namespace strobe::lm {

// Selects how a call submits its work to a GPU. replayed: as one CUDA graph from the second call on. direct: kernel by
// kernel. Has no effect on the CPU.
enum class Launches { replayed, direct };

struct ModelOptions {
  std::string attention{};                         // kernel name; empty: the library chooses; standard: ops/attention.h
  GradientMemory gradients = GradientMemory::own;  // none: only losses are available, and no optimizer state exists
  OptimizerMemory optimizer = OptimizerMemory::own;
  Recompute recompute = Recompute::none;
};

class Model {
 public:
  // `batch` is the number of sequences of shape.context tokens per step. `dtype` is the type of activations and
  // matmuls. Parameters and their gradients are fp32; matmuls of another type read copies of the parameters. On CUDA
  // the model has its own streams and workspace, and only begin() uses execution.threads.
  Model(const ModelShape& shape, std::int64_t batch, DType dtype, const ops::ExecutionContext& execution,
        const ModelOptions& options = {});
  Model(const Model&) = delete;  // its members refer to one another
  Model& operator=(const Model&) = delete;

  void begin(std::uint64_t seed);  // sets initial parameters; clears gradients and optimizer state
  void begin_at_zero();  // like begin(), but sets parameters to 0; fast, for callers that do not depend on values

  // tokens and targets: [batch, context] on the host, each in [0, vocabulary). Returns the mean loss.
  double loss(const std::int32_t* tokens, const std::int32_t* targets);
  // Returns the mean loss of the first `counted` tokens only.
  double loss_of_first(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t counted);
  // Returns the mean loss, and adds gradient_scale times the parameter gradients to the stored ones. Requires
  // GradientMemory::own.
  double loss_with_gradients(const std::int32_t* tokens, const std::int32_t* targets, float gradient_scale = 1);
  // Returns the mean loss, and overwrites the stored gradients. Not available with GradientMemory::over_copies.
  double loss_and_lone_gradients(const std::int32_t* tokens, const std::int32_t* targets, float gradient_scale = 1);

  // Takes one training step: gradients of these tokens, clipping, update. In fp16 the loss is scaled. On CUDA updates
  // may overlap with the backward (step/optimizer.h), so a step that throws may have updated some parameters.
  StepResult step(const std::int32_t* tokens, const std::int32_t* targets, const StepOptions& options);

  // Sets a callback. Every backward calls it once per parameter, from the last to the first, when the parameter's
  // gradient is final. The argument is the parameter's table index. An empty function removes the callback. On CUDA, a
  // gradient is final once the work that is on the stream at the call has run. While a callback is set, no call uses a
  // graph.
  void on_gradient_ready(std::function<void(std::size_t parameter)> ready) {
    transformer_.on_gradient_ready(std::move(ready));
  }

  // Copy elements [first, first + size) of `which`, an array of parameter_count(shape) floats, to or from host memory.
  // Writing values also updates the copies that matmuls read.
  void read_state(State which, std::span<float> out, std::int64_t first = 0) const { state_.read(which, out, first); }
  void write_state(State which, std::span<const float> in, std::int64_t first = 0) {
    state_.write(execution_, which, in, first);
  }
  const LossScale& loss_scale() const { return optimizer_.loss_scale; }
  void set_loss_scale(const LossScale& loss_scale) { optimizer_.loss_scale = loss_scale; }

  void clear_gradients() { state_.clear_gradients(); }
  double gradient_norm(double scale = 1) const;
  void update(const ops::AdamW& options);

  // Runs one phase of the step on the tokens of the last loss or step call. On CUDA it does not wait. Phases must run
  // in the order of Phase. With GradientMemory::over_copies no forward may run between a backward and its update.
  void run_phase(Phase phase);
  // fp16: true if the last update, of a step or a phase, was skipped because its gradient overflowed. Waits for the
  // GPU.
  bool update_skipped() const;
  const GpuStream* stream() const { return stream_ ? &*stream_ : nullptr; }  // null on the CPU

  // Records every operation from now on; null stops recording. On CUDA, operations are recorded when their kernels are
  // launched or captured. These are the first two calls of a function, because later calls replay a graph. With
  // Launches::direct every call is recorded.
  void record(Recorder* recorder) { transformer_.record(recorder); }
  void set_launches(Launches launches) { launches_ = launches; }

  const ModelShape& shape() const { return transformer_.shape(); }
  const ActivationPlan& plan() const { return transformer_.plan(); }
  std::size_t first_gradient() const { return state_.first_gradient(); }  // byte offset of the gradients in the arena
  std::int64_t batch() const { return transformer_.options().batch; }
  DType dtype() const { return transformer_.options().dtype; }
  const ops::ExecutionContext& execution() const { return execution_; }
  OptimizerMemory optimizer_memory() const { return state_.optimizer_memory(); }
  const std::vector<Parameter>& parameters() const { return transformer_.parameters(); }
  // Parameters and gradients in host memory; on the CPU only.
  std::span<float> values() const { return on_host(placed_values()); }
  std::span<float> gradients() const { return on_host(placed_gradients()); }
  // Parameters and gradients in the memory of the device.
  float* placed_values() const { return state_.values(); }
  float* placed_gradients() const;
  void copy_values() { state_.round_copies(execution_); }  // call it after writing to placed_values()

 private:
  std::span<float> on_host(float* data) const;
  void check_tokens(const char* what, const std::int32_t* tokens) const;
  void take(const std::int32_t* tokens, const std::int32_t* targets);
  const GpuStream* replay_stream() const;                      // null: launch directly
  void run(Replay& which, const std::function<void()>& work);  // includes transfers; waits for the result
  void forward_and_backward(ops::Into into);
  double mean_loss() const;

  Transformer transformer_;
  std::optional<GpuStream> stream_;  // CUDA
  ModelState state_;
  Memory workspace_;
  Transfer transfer_;
  ops::ExecutionContext execution_;
  Optimizer optimizer_;
  Launches launches_ = Launches::replayed;
  Replay loss_, gradients_, lone_gradients_;
  Replay steps_[3];   // per Optimizer::Kind
  Replay phases_[4];  // per Phase; the last one: an update with the norm
};

}  // namespace strobe::lm
