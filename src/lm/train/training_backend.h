// TrainingBackend is the interface through which Trainer runs a model. SingleBackend trains in one process;
// ParallelBackend (data_parallel/parallel_backend.h) trains on several ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "lm/model.h"
#include "lm/step/optimizer.h"
#include "lm/train/settings.h"

namespace strobe::lm {

// Seconds of a step on one rank. `hidden` is communication during backward, `exposed` communication after it; forward,
// backward, exposed and optimizer do not overlap. `calls` and `bytes` are the number and size of the step's
// collectives.
struct StepSplit {
  double forward = 0, backward = 0, exposed = 0, hidden = 0, optimizer = 0;
  std::int64_t calls = 0, bytes = 0;
};

// With several ranks, begin(), step(), loss_of_first(), read_state(), write_state() and agreed() are collective. All
// ranks call them in the same order, with the same arguments except `in` and `own`.
class TrainingBackend {
 public:
  virtual ~TrainingBackend() = default;

  virtual const Model& model() const = 0;  // the model of this process

  virtual void begin(std::uint64_t seed, const LossScale& loss_scale) = 0;

  // `tokens` and `targets` are the whole batch, [batch, context], on every rank. Loss and norm are those of the whole
  // batch.
  virtual StepResult step(const std::int32_t* tokens, const std::int32_t* targets, const StepOptions& options) = 0;
  // Returns the mean loss of the first `counted` tokens from the forward pass only.
  virtual double loss_of_first(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t counted) = 0;
  virtual std::optional<StepSplit> split() const { return std::nullopt; }  // times of the last step on this rank

  // Read and write elements [first, first + size) of a state, in the order of the parameter table. A read returns the
  // elements at least on rank 0. A write uses the values in rank 0's `in`; on the other ranks it first overwrites `in`
  // with these values.
  virtual void read_state(State which, std::int64_t first, std::span<float> out) = 0;
  virtual void write_state(State which, std::int64_t first, std::span<float> in) = 0;

  virtual bool leads() const { return true; }  // true on rank 0, which writes files and output
  virtual int agreed(int own) { return own; }  // returns, on all ranks, the lowest rank's nonzero `own`; 0: none
};

struct BackendOptions {
  int threads = 1;
  Recompute recompute = Recompute::none;
  int processes = 1;  // processes that train on this device and share its memory
};

// Creates a model for training. `state_bytes` is the size of the optimizer state with OptimizerMemory::outside. Throws
// Error(unsupported) if the device does not support the precision. Throws Error(out_of_memory); on the CPU, and with
// several processes per device, before any allocation.
Model training_model(const Settings& settings, std::int64_t batch, const BackendOptions& options,
                     OptimizerMemory optimizer, std::size_t state_bytes = 0);

class SingleBackend : public TrainingBackend {
 public:
  SingleBackend(const Settings& settings, const BackendOptions& options)
      : model_(training_model(settings, settings.batch, options, OptimizerMemory::own)) {}

  const Model& model() const override { return model_; }
  void begin(std::uint64_t seed, const LossScale& loss_scale) override {
    model_.begin(seed);
    model_.set_loss_scale(loss_scale);
  }
  StepResult step(const std::int32_t* tokens, const std::int32_t* targets, const StepOptions& options) override {
    return model_.step(tokens, targets, options);
  }
  double loss_of_first(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t counted) override {
    return model_.loss_of_first(tokens, targets, counted);
  }
  void read_state(State which, std::int64_t first, std::span<float> out) override {
    model_.read_state(which, out, first);
  }
  void write_state(State which, std::int64_t first, std::span<float> in) override {
    model_.write_state(which, in, first);
  }

 private:
  Model model_;
};

}  // namespace strobe::lm
