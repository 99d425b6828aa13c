// Transformer has the operations of a model's forward and backward; models/NAME.cpp calls them in order. The
// operations work on tensors of the memory plan and parameters of the table. They report to a recorder if there is one.
// They neither allocate memory nor update parameters.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "device/gpu_stream.h"
#include "lm/models/activations.h"
#include "lm/models/operation.h"
#include "lm/models/parameters.h"
#include "ops/attention.h"
#include "ops/execution_context.h"
#include "ops/rope.h"
#include "strobe/attention.h"

namespace strobe::lm {

struct TransformerOptions {
  ModelShape shape;
  std::int64_t batch = 1;     // sequences of shape.context tokens
  DType dtype = DType::fp32;  // type of activations and matmuls
  std::string attention{};    // kernel name; empty: the library chooses; "standard": see ops/attention.h
  GradientMemory gradients = GradientMemory::own;
  Recompute recompute = Recompute::none;
};

// Returns the largest workspace of any matmul; excludes the backward's matmuls if `gradients` is none.
std::size_t matmul_workspace_bytes(const TransformerOptions& options, const ops::ExecutionContext& execution);

// Returns the largest workspace of any operation. On CUDA all operations share it; on the CPU each allocates its own.
std::size_t workspace_bytes(const TransformerOptions& options, const ops::ExecutionContext& execution);

// The memory of a transformer's tensors, on its device.
struct TransformerMemory {
  char* arena = nullptr;               // the arena of the memory plan
  const float* values = nullptr;       // parameters in the order of the table
  float* gradients = nullptr;          // gradients in the same order; null: no backward
  std::vector<const void*> weights{};  // each parameter as matmuls read it
  const float* rope = nullptr;         // the RoPE table; null: none
  const std::int32_t *tokens = nullptr, *targets = nullptr;
  float* losses = nullptr;  // per token
  const float* loss_scale = nullptr;
};

// `parts` adjacent parameters of the table that one operation uses, such as the weights of q, k and v.
struct Weights {
  Weights(std::size_t index, int count = 1) : first(index), parts(count) {}
  std::size_t first;
  int parts;
};

class Transformer {
 public:
  explicit Transformer(const TransformerOptions& options);
  void bind(TransformerMemory memory, const ops::ExecutionContext& execution, const GpuStream* stream);

  // --- called by Model
  void forward();
  enum class LossOnly { no, yes };  // no: the gradient replaces the logits
  void cross_entropy(LossOnly what);
  // backward() calls `updatable` with parameters [first, last) when their gradients are final and the rest of the step
  // does not read these parameters.
  using Updatable = std::function<void(std::size_t first, std::size_t last)>;
  void backward(ops::Into into, Updatable updatable = {});
  void on_gradient_ready(std::function<void(std::size_t parameter)> ready) { gradient_ready_ = std::move(ready); }
  bool reports_gradients() const { return static_cast<bool>(gradient_ready_); }
  void leave_room_in_backward(bool room) { leaves_room_ = room; }  // see backward_execution() in transformer.cpp

  const TransformerOptions& options() const { return options_; }
  const ModelShape& shape() const { return options_.shape; }
  std::int64_t tokens() const { return tokens_; }
  const ActivationPlan& plan() const { return plan_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

  // --- recording, also used by Model
  void record(Recorder* recorder) { recorder_ = recorder; }
  bool is_recorded() const { return recorder_ != nullptr; }
  void begin_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }
  Recorded recorded_update(const char* name, std::size_t bytes_per_parameter) const;
  Recorded recorded_transfer(const char* name, Phase phase, std::size_t bytes) const;

  // --- for models/NAME.cpp: structure
  std::size_t layers() const { return plan_.blocks.size(); }
  const BlockActivations& block(std::size_t layer) const { return plan_.blocks[layer]; }
  std::size_t block_output(std::size_t layer) const { return layer + 1 < layers() ? block(layer + 1).x : plan_.x; }
  std::size_t first_parameter(std::size_t layer) const { return lm::first_parameter(shape().architecture, layer); }
  // Returns the activations that a block's backward recomputes: none for the last block, whose activations are still in
  // memory.
  Recompute recompute(std::size_t layer) const { return layer + 1 < layers() ? options_.recompute : Recompute::none; }
  void updatable(std::size_t first, std::size_t last) const {
    if (updatable_) updatable_(first, last);
  }

  // --- for models/NAME.cpp: operations on tensors of the plan
  void embed(std::optional<std::size_t> positions = {});
  void embed_backward(std::optional<std::size_t> positions = {});
  // y = x W^T + bias, or without bias if the layer has none. linear_onto() also adds `addend`.
  void linear(Weights weights, std::size_t x, std::size_t y);
  void linear_onto(Weights weights, std::size_t x, std::size_t addend, std::size_t y);
  void linear_backward(Weights weights, std::size_t dy, std::size_t x, std::size_t dx);
  void unembed();
  void unembed_backward();
  void rms_norm(std::size_t weight, std::size_t x, std::size_t y, std::size_t statistics);
  void layer_norm(std::size_t weight, std::size_t x, std::size_t y, std::size_t statistics);
  // Backward of a norm. Reads plan().d_narrow, and overwrites or adds to plan().d_x as `into` selects.
  void rms_norm_backward(std::size_t weight, std::size_t x, std::size_t statistics, ops::Into into);
  void layer_norm_backward(std::size_t weight, std::size_t x, std::size_t statistics, ops::Into into);
  void rope(Weights q_and_k, std::size_t qkv, ops::Rotation direction);
  void attention(std::size_t layer);                // qkv -> o
  void attention_backward(std::size_t layer);       // plan().d_narrow -> plan().d_wide
  void swiglu(Weights weights, std::size_t layer);  // hidden -> activated
  void gelu(Weights weights, std::size_t layer);
  // Backward of the activation function. Reads plan().d_wide and replaces the block's `hidden` by its gradient.
  void swiglu_backward(Weights weights, std::size_t layer);
  void gelu_backward(Weights weights, std::size_t layer);

 private:
  void* at(std::size_t tensor) const { return memory_.arena + plan_.table[tensor].first; }
  float* floats(std::size_t tensor) const { return tensor == kNoTensor ? nullptr : static_cast<float*>(at(tensor)); }
  const float* value(std::size_t parameter) const { return memory_.values + parameters_[parameter].first; }
  float* gradient(std::size_t parameter) const { return memory_.gradients + parameters_[parameter].first; }
  std::optional<std::size_t> bias_of(Weights weights) const;
  const void* bias_data(Weights weights) const;  // null if the weights have no bias
  void bias_backward(Weights biases, std::size_t dy, std::int64_t width);
  void clear(float* data, std::int64_t count) const;
  void report_ready(Weights weights) const;
  ops::ExecutionContext backward_execution() const;
  bool is_materialised() const { return plan_.blocks[0].probabilities != kNoTensor; }
  void materialised_attention(std::size_t layer);
  void materialised_attention_backward(std::size_t layer);

  using Tensors = std::initializer_list<TensorUse>;
  // `gradients` is the number of parameters, starting with the first of `weights`, whose gradients the operation
  // writes.
  Recorded recorded(const char* name, OperationKind kind, Weights weights, Tensors reads, Tensors writes,
                    int gradients = 0) const;
  Recorded recorded_matmul(const char* name, Weights weights, Tensors reads, Tensors writes, int gradients = 0) const;
  Recorded recorded_norm_backward(const char* name, Weights parameters, std::size_t x, std::size_t statistics,
                                  ops::Into into) const;
  Recorded recorded_attention(Pass pass, std::size_t layer, Tensors reads, Tensors writes) const;
  TensorUse rows(std::size_t tensor, std::int64_t width) const;  // use of the first tokens() * width elements
  std::string name_of(Weights weights) const;

  TransformerOptions options_;
  std::int64_t tokens_;
  DType dtype_;
  std::vector<Parameter> parameters_;
  ActivationPlan plan_;
  TransformerMemory memory_;
  ops::ExecutionContext execution_;
  const GpuStream* stream_ = nullptr;
  ops::Into gradients_into_ = ops::Into::sum;  // argument of the current backward
  Updatable updatable_;                        // argument of the current backward
  bool leaves_room_ = false;
  Phase phase_ = Phase::forward;
  Recorder* recorder_ = nullptr;
  std::function<void(std::size_t)> gradient_ready_;
};

}  // namespace strobe::lm
