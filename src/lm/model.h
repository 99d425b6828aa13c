// The model, forward and backward: embedding -> blocks -> norm -> unembedding -> cross-entropy. One block, pre-norm:
// x + o(attention(q, k, v)), then + w2(activated), each of norm(x). llama: RMSNorm, q and k turned by RoPE, activated =
// silu(w1) w3. gpt2: LayerNorm, positions added to the embedding, activated = gelu(w1), biases.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lm/models/activations.h"
#include "lm/models/operation.h"
#include "lm/models/parameters.h"
#include "lm/state/memory.h"
#include "lm/step/exchange.h"
#include "lm/step/loss_scale.h"
#include "lm/step/replay.h"
#include "lm/step/side_stream.h"
#include "ops/attention.h"
#include "ops/optimizer.h"
#include "ops/place.h"
#include "ops/rope.h"
#include "strobe/attention.h"

namespace strobe::lm {

struct StepOptions {
  ops::AdamW adamw;        // its gradient_scale is set by the step
  double clip = 0;         // the largest norm of the gradient; 0: any
  bool needs_norm = true;  // false: without clipping the norm is not computed, but in fp16
};

struct StepResult {
  double loss = 0, gradient_norm = 0;  // the norm NaN where it was not computed
  bool skipped = false;                // fp16: a gradient overflowed, nothing was updated
  std::int64_t skipped_in_all = 0;
};

// What training keeps of each parameter, fp32, in the order of the table; gradients only to be read.
enum class State { values, mean, variance, gradients };

// outside: the model does not keep AdamW's averages; the code that updates its values does (lm/data_parallel).
enum class OptimizerMemory { own, outside };

// How a call puts its work on a GPU: as one graph from its second time on, or kernel by kernel each time. On the CPU
// there is no difference.
enum class Launches { replayed, direct };

struct ModelOptions {
  std::string attention{};  // a kernel's name; empty: the library chooses. standard: ops/attention.h
  GradientMemory gradients = GradientMemory::own;  // none: loss() only, and no optimizer state either
  OptimizerMemory optimizer = OptimizerMemory::own;
  Recompute recompute = Recompute::none;
};

// Largest workspace of the model's matmuls; if `gradients` is none, of those of the forward.
std::size_t products_workspace_bytes(const ModelShape& shape, std::int64_t tokens, DType dtype, const ops::Place& place,
                                     GradientMemory gradients);

// The model's attention as ops/attention.h takes it.
ops::MaterialisedAttention materialised_attention(const ModelShape& shape, std::int64_t batch, DType dtype);

class Model {
 public:
  // batch: sequences of shape.context tokens a step. dtype: of activations and products; parameters and their
  // gradients are fp32, with a copy in dtype for products. On CUDA the model has streams and a workspace of its own,
  // and place.threads serve begin() alone.
  Model(const ModelShape& shape, std::int64_t batch, DType dtype, const ops::Place& place,
        const ModelOptions& options = {});
  Model(const Model&) = delete;  // its memories know its stream
  Model& operator=(const Model&) = delete;

  void begin(std::uint64_t seed);  // parameters as their table says, gradients and optimizer state zero
  void begin_at_zero();            // parameters too: for where nothing depends on them, as drawing takes a while

  // tokens and targets: [batch, context], each in [0, vocabulary), on the host. The mean loss.
  double loss(const std::int32_t* tokens, const std::int32_t* targets);
  // Mean loss of the first `counted` of them.
  double loss_of_first(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t counted);
  // The same, and gradients of the parameters, times gradient_scale, are added up: GradientMemory::own only.
  double loss_with_gradients(const std::int32_t* tokens, const std::int32_t* targets, float gradient_scale = 1);

  // The same, and gradients of these tokens, times gradient_scale, replace earlier ones: not
  // GradientMemory::over_copies.
  double loss_and_lone_gradients(const std::int32_t* tokens, const std::int32_t* targets, float gradient_scale = 1);

  // One step of training: gradients of these tokens alone, cut to the norm, and the update. In fp16 the loss is scaled.
  // On CUDA, in a graph whose update depends on no norm and is not over copies, a parameter is updated as soon as its
  // gradient is final, beside the rest of the backward; a step that throws may then have updated some of them.
  StepResult step(const std::int32_t* tokens, const std::int32_t* targets, const StepOptions& options);

  // Called in every backward as soon as a parameter's gradient is final, with its place in the table: from the last to
  // the first, once each. An empty function removes it. On CUDA final means: for what is put on the stream from then
  // on; and since graphs call nobody, every call of the model puts its work on the stream itself while there is a
  // function.
  void on_gradient_ready(std::function<void(std::size_t parameter)> ready);

  // To and from host memory, elements of parameter_count(shape) floats from `first` on; what products read follows
  // values.
  void read_state(State which, std::span<float> out, std::int64_t first = 0) const;
  void write_state(State which, std::span<const float> in, std::int64_t first = 0);
  const LossScale& loss_scale() const { return loss_scale_; }
  void set_loss_scale(const LossScale& loss_scale) { loss_scale_ = loss_scale; }

  void clear_gradients();
  double gradient_norm(double scale = 1) const;
  void update(const ops::AdamW& options);

  // A part of the step on what the last of the calls above was given; on CUDA not waited for. In the order of Phase,
  // and with GradientMemory::over_copies no forward between a backward and its update.
  void run_phase(Phase phase);
  // fp16: whether the last update, of a step or a phase, was skipped as its gradient overflowed. Waits for the GPU.
  bool update_skipped() const {
    exchange_.receive();
    if (stream_) stream_->synchronize();
    return exchange_.host().update()->skip != 0;
  }
  const GpuStream* stream() const { return stream_ ? &*stream_ : nullptr; }  // CUDA; null on the CPU

  // Told of every operation from here on; null: none. On CUDA of what is put on the stream, so that what is replayed as
  // a graph is not told: each of the calls above is told twice, when it runs first and when it is captured; with
  // Launches::direct every time.
  void record(Recorder* recorder) { recorder_ = recorder; }
  void set_launches(Launches launches) { launches_ = launches; }

  const ModelShape& shape() const { return shape_; }
  const ActivationPlan& plan() const { return plan_; }
  std::size_t first_gradient() const { return gradients_at_; }  // in the run that the plan is of
  std::int64_t batch() const { return batch_; }
  DType dtype() const { return dtype_; }
  const ops::Place& place() const { return place_; }
  OptimizerMemory optimizer_memory() const { return optimizer_memory_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  // On the CPU alone.
  std::span<float> values() const { return on_host(values_.as<float>()); }
  std::span<float> gradients() const {
    check_gradients_apart("gradients");
    return on_host(gradient(0));
  }
  // The same wherever they lie: in memory of the place.
  float* placed_values() const { return values_.as<float>(); }
  float* placed_gradients() const {
    check_gradients_apart("gradients");
    return gradient(0);
  }
  void copy_values() { ops::round_copies(place_, trained_); }  // after values were written from outside

 private:
  std::size_t count() const { return static_cast<std::size_t>(parameter_count(shape_)); }
  std::span<float> on_host(float* data) const;
  const float* value(std::size_t parameter) const { return values_.as<float>() + parameters_[parameter].first; }
  float* gradient(std::size_t parameter) const {
    return reinterpret_cast<float*>(run_.as<char>() + gradients_at_) + parameters_[parameter].first;
  }
  const Memory& memory(State which) const;
  const void* weight(std::size_t parameter) const;  // as products read it
  void* copy_of(std::size_t parameter) const;       // where its type is not fp32; null where nobody reads one
  ops::Trained trained(std::size_t begin, std::size_t end) const;  // parameters [begin, end), neighbours also as copies
  void* at(std::size_t tensor) const { return run_.as<char>() + plan_.table[tensor].first; }
  float* floats(std::size_t tensor) const { return tensor == kNoTensor ? nullptr : static_cast<float*>(at(tensor)); }

  // --- model.cpp: the network
  void forward();
  void forward_block(std::size_t layer, std::size_t out);
  void forward_to_activated(std::size_t layer);
  void forward_to_o(std::size_t layer);
  enum class Updates { later, beside };  // beside: parameters follow as soon as their gradients are final
  void backward(ops::Into into, Updates updates = Updates::later);
  void backward_block(std::size_t layer);
  void attend(std::size_t layer) const;
  void attend_backward(std::size_t layer) const;
  void attend_materialised(std::size_t layer) const;
  void attend_materialised_backward(std::size_t layer) const;
  bool is_materialised() const { return plan_.blocks[0].probabilities != kNoTensor; }
  Attention attention(std::size_t qkv) const;
  Execution execution() const;
  bool is_gpt2() const { return shape_.architecture == Architecture::gpt2; }
  BlockPlaces places(std::size_t layer) const { return block_places(shape_.architecture, layer); }

  // --- model_operations.cpp: one operation each
  // Of `parts` neighbours in the table, which lie side by side and so are one matrix.
  void linear(std::size_t parameter, int parts, std::size_t x, std::size_t y) const;
  void linear_onto(std::size_t parameter, std::size_t x, std::size_t addend, std::size_t y) const;
  ops::Place backward_place() const;  // of products
  void linear_backward(std::size_t parameter, int parts, std::size_t dy, std::size_t x, std::size_t dx) const;
  std::optional<std::size_t> bias_behind(std::size_t parameter, int parts) const;
  const void* bias_of(std::size_t parameter, int parts) const;  // as products read it; null: none
  void bias_backward(std::size_t bias, int parts, std::size_t dy, std::int64_t width) const;
  void norm(std::size_t parameter, std::size_t x, std::size_t y, std::size_t statistics) const;
  void norm_backward(std::size_t parameter, std::size_t x, std::size_t statistics, std::size_t dx,
                     ops::Into into) const;
  void turn(std::size_t layer, std::size_t qkv, ops::Turn direction) const;
  void activate(std::size_t layer) const;
  void activate_backward(std::size_t layer) const;
  void embed() const;
  void embed_backward() const;
  void tell_ready(std::size_t parameter, int parts = 1) const;
  enum class LossOnly { no, yes };  // no: logits become their gradient
  void cross_entropy(LossOnly what) const;

  // --- model_record.cpp: an operation, told
  using Tensors = std::initializer_list<TensorUse>;
  struct Of {
    std::size_t parameter;
    int parts = 1;      // neighbours that it is of
    int gradients = 0;  // written, from `parameter` on
  };
  Recorded recorded(const char* name, OperationKind kind, Of of, Tensors reads, Tensors writes) const;
  Recorded recorded_product(const char* name, Of of, Tensors reads, Tensors writes) const;
  Recorded recorded_attention(Pass pass, std::size_t layer, Tensors reads, Tensors writes) const;
  Recorded recorded_update(const char* name, std::size_t bytes) const;
  Recorded recorded_transfer(const char* name, Phase phase, std::size_t bytes) const;
  TensorUse rows(std::size_t tensor, std::int64_t width) const;  // [T, width] of it
  std::string name_of(std::size_t parameter, int parts) const;

  // --- model_step.cpp: a step around it
  void take(const std::int32_t* tokens, const std::int32_t* targets);
  void check_tokens(const char* what, const std::int32_t* tokens) const;
  void run(Replay& which, const std::function<void()>& work);  // and waits for it
  void send() const;
  void receive() const;
  const GpuStream* replayed_on() const;                     // null: work is called
  void apply_gradients();                                   // as the placed Update says
  void begin_state();                                       // all but the parameters
  void update_beside(std::size_t first, std::size_t last);  // parameters [first, last), where updates do not come later
  void limit_gradients() const;
  void update_parameters() const;
  double mean_loss() const;
  void check_optimizer(const char* what) const;
  void check_gradients_apart(const char* what) const;
  void check_has_backward(const char* what) const;
  std::size_t checked_place(std::int64_t first, std::size_t count) const;  // in bytes, of elements of a state
  std::size_t workspace_bytes_of() const;
  const char* workspace_tag() const;

  ModelShape shape_;
  std::int64_t batch_, tokens_;
  DType dtype_;
  ops::Place place_;
  std::string attention_;
  std::vector<Parameter> parameters_;
  ActivationPlan plan_;
  GradientMemory gradient_memory_;
  OptimizerMemory optimizer_memory_;
  Recompute recompute_;
  std::size_t gradients_at_;
  std::optional<GpuStream> stream_;
  std::optional<SideStream> beside_;                       // CUDA: for updates that need not be waited for
  Memory rope_, values_, mean_, variance_, copies_, run_;  // run_: activations and gradients
  Memory workspace_;
  Exchange exchange_;
  LossScale loss_scale_;               // of fp16
  ops::Trained whole_;                 // all parameters; with their copies where those lie side by side too
  std::vector<ops::Trained> trained_;  // the same in parts whose copies lie side by side, to be updated in this order
  ops::Into gradients_into_ = ops::Into::sum;  // of the backward under way
  bool needs_norm_ = false;                    // of the last step
  bool updates_go_beside_ = false;             // likewise, as a graph: kernels are the same without one
  Updates updates_ = Updates::later;           // of the backward under way
  Phase phase_ = Phase::forward;               // under way
  Recorder* recorder_ = nullptr;
  Launches launches_ = Launches::replayed;
  std::function<void(std::size_t)> gradient_ready_;
  Replay loss_, gradients_, lone_gradients_, step_, step_with_norm_, limited_step_;
  Replay phases_[4];  // by Phase; the last: an update with the norm
};

}  // namespace strobe::lm
