// What takes the steps of a training run: a model alone, or one that several ranks train together
// (data_parallel/parallel_learner.h). Trainer has one loop, one log and one kind of checkpoint for both.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "lm/model.h"
#include "lm/step/optimizer.h"
#include "lm/train/settings.h"

namespace strobe::lm {

// What a step of a rank was spent on, in seconds: hidden communication lies within backward, the others follow one
// another. Calls of a step, and the bytes that they were about.
struct StepSplit {
  double forward = 0, backward = 0, exposed = 0, hidden = 0, optimizer = 0;
  std::int64_t calls = 0, bytes = 0;
};

// Of several ranks, all call the same functions in the same order with the same arguments, but for what is said of
// rank 0.
class Learner {
 public:
  virtual ~Learner() = default;

  virtual const Model& model() const = 0;  // this process's

  virtual void begin(std::uint64_t seed, const LossScale& loss_scale) = 0;

  // tokens and targets: [batch, context] of the whole batch, of which loss and norm are too.
  virtual StepResult step(const std::int32_t* tokens, const std::int32_t* targets, const StepOptions& options) = 0;
  // Mean loss of the first `counted` tokens, by the forward pass only.
  virtual double loss_of_first(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t counted) = 0;
  virtual std::optional<StepSplit> split() const { return std::nullopt; }  // the last step's, as this rank saw it

  // Elements of a state from `first` on, in the order of the table. What is read is for rank 0. What is written is
  // rank 0's; the others give as much memory, which then holds it.
  virtual void read_state(State which, std::int64_t first, std::span<float> out) = 0;
  virtual void write_state(State which, std::int64_t first, std::span<float> in) = 0;

  virtual bool leads() const { return true; }         // rank 0: files and lines are its business
  virtual int agreed_signal(int own) { return own; }  // one that a rank remembers, the same on all; 0: none
};

struct LearnerOptions {
  int threads = 1;
  Recompute recompute = Recompute::none;
  int processes = 1;  // that train on this device, and share its memory
};

// A model as training wants it. state_bytes: of the optimizer, where it is outside. Throws Error(unsupported) for a
// precision that the device does not have, and Error(out_of_memory) before anything is allocated.
Model training_model(const Settings& settings, std::int64_t batch, const LearnerOptions& options,
                     OptimizerMemory optimizer, std::size_t state_bytes = 0);

class LoneLearner : public Learner {
 public:
  LoneLearner(const Settings& settings, const LearnerOptions& options)
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
