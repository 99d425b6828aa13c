// ModelState owns the memory of a model: parameters, AdamW's moments, copies of the parameters in the type of the
// matmuls, and the arena. The arena is one allocation for activations and gradients (models/activations.h). Model uses
// this class.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lm/models/transformer.h"
#include "lm/state/memory.h"
#include "ops/optimizer.h"

namespace strobe::lm {

// State that training stores per parameter: fp32, in the order of the parameter table. `gradients` is read-only.
enum class State { values, mean, variance, gradients };

// own: the model stores AdamW's moments. outside: other code stores them and updates the values (lm/data_parallel).
enum class OptimizerMemory { own, outside };

class ModelState {
 public:
  // `model` provides the memory plan and the parameter table, and must outlive this object. `stream` is null on the
  // CPU.
  ModelState(const Transformer& model, OptimizerMemory optimizer, const GpuStream* stream);

  // Sets the parameters to their initial values and updates their copies. Clears moments and gradients.
  void begin(std::uint64_t seed, const ops::ExecutionContext& execution);
  // Does the same, but sets the parameters to 0.
  void begin_at_zero(const ops::ExecutionContext& execution);
  // Copy elements [first, first + size) of `which` to or from host memory. Gradients cannot be written. Both throw
  // Error(invalid_argument) for elements out of range, and Error(unsupported) for a state that the model does not
  // store.
  void read(State which, std::span<float> out, std::int64_t first) const;
  void write(const ops::ExecutionContext& execution, State which, std::span<const float> in, std::int64_t first);
  void clear_gradients();
  void round_copies(const ops::ExecutionContext& execution) const { ops::round_copies(execution, trained_); }

  // The checks throw Error(unsupported), with `what` in the text:
  // - check_optimizer(): if the model does not store AdamW's moments.
  // - check_has_backward(): if the model is forward only, without gradients.
  // - check_gradients_apart(): as check_has_backward(), and if gradients are valid only within a step because they
  //   share memory with matmul operands (GradientMemory::over_copies).
  void check_optimizer(const char* what) const;
  void check_has_backward(const char* what) const;
  void check_gradients_apart(const char* what) const;

  float* values() const { return values_.as<float>(); }
  float* gradients() const { return reinterpret_cast<float*>(arena_.as<char>() + gradients_at_); }
  char* arena() const { return arena_.as<char>(); }
  const float* rope() const { return rope_.as<float>(); }
  std::vector<const void*> weights() const;  // each parameter as matmuls read it

  std::size_t count() const { return values_.bytes() / sizeof(float); }  // elements of all parameters
  std::size_t first_gradient() const { return gradients_at_; }           // byte offset of the gradients in the arena
  GradientMemory gradient_memory() const { return model_.options().gradients; }
  OptimizerMemory optimizer_memory() const { return optimizer_memory_; }

  // Arguments of the optimizer: trained(begin, end) for parameters [begin, end) of the table, whole() for all
  // parameters as one range. Without arguments trained() returns all parameters in one range, except with
  // GradientMemory::over_copies. It then returns several ranges, because copies are contiguous only within a range.
  // These must be updated in order: the copies that an update writes may overwrite gradients of earlier ranges.
  ops::Trained trained(std::size_t begin, std::size_t end) const;
  const ops::Trained& whole() const { return whole_; }
  std::span<const ops::Trained> trained() const { return trained_; }

 private:
  void begin_rest(const ops::ExecutionContext& execution);  // clears moments and gradients, updates copies
  const Memory& memory(State which) const;
  void* copy_of(std::size_t parameter) const;                              // null if the parameter has no copy
  std::size_t checked_offset(std::int64_t first, std::size_t size) const;  // returns a byte offset

  const Transformer& model_;
  OptimizerMemory optimizer_memory_;
  std::size_t gradients_at_;
  Memory rope_, values_, mean_, variance_, copies_, arena_;
  ops::Trained whole_;
  std::vector<ops::Trained> trained_;
};

}  // namespace strobe::lm
