// The forward steps of a row block, one after the other, or, where the instruction set has it, three neighbours at once
// (Isa::forward_flow). Called by forward.cpp; one for each thread.
#pragma once

#include <algorithm>

#include "attention/cpu/plan.h"

namespace strobe::cpu {

class StepFlow {
 public:
  // Where steps flow, neighbours have scratch of their own.
  static int copies(const Plan& plan) { return flows(plan) ? 2 : 1; }

  // Scratch [copies][block_keys][n], shrink and largest [copies][n].
  StepFlow(const Plan& plan, float* scores, char* weights, float* shrink, float* largest)
      : plan_(plan), flows_(flows(plan)), scores_(scores), weights_(weights), shrink_(shrink), largest_(largest) {}

  // What a step has of its panel of rows; see ForwardStep.
  struct Panel {
    void (*step)(const ForwardStep&);  // for one that does not flow
    const void* q;
    const Lanes* lanes;
    float *o, *max, *sum;
  };

  // A step of one panel; `block` has what panels share but for scratch. What pointers lead to stays until drain().
  // (Copied whole and then written: the other way round, the copy would wait for the writes.)
  void push(const ForwardStep& block, const Panel& panel) {
    if (std::max(panel.lanes->lo_min, block.key_begin) >=
        std::min(panel.lanes->hi_max, block.key_begin + block.key_count)) {
      return;  // no lane sees a key
    }
    const bool alone = !flows_ || block.v_rows;
    if (alone) drain();
    const std::int64_t copy = flows_ ? count_ % 2 : 0, tile = std::int64_t{plan_.block_keys} * plan_.isa->n;
    ForwardStep& step = steps_[count_ % 3];
    step = block;
    step.q = panel.q;
    step.lanes = panel.lanes;
    step.o = panel.o;
    step.max = panel.max;
    step.sum = panel.sum;
    step.scores = scores_ + copy * tile;
    step.weights = weights_ ? weights_ + copy * tile * plan_.element : nullptr;
    step.shrink = shrink_ + copy * plan_.isa->n;
    step.largest = largest_ + copy * plan_.isa->n;
    if (alone) return panel.step(step);
    plan_.isa->forward_flow(back(2), back(1), &step);
    ++count_;
  }

  // Finishes the steps in flight.
  void drain() {
    if (count_ == 0) return;
    plan_.isa->forward_flow(back(2), back(1), nullptr);
    plan_.isa->forward_flow(back(1), nullptr, nullptr);
    count_ = 0;
  }

 private:
  static bool flows(const Plan& plan) { return plan.isa->forward_flow && plan.piece == kLongPiece; }

  const ForwardStep* back(std::int64_t by) const { return by <= count_ ? &steps_[(count_ - by) % 3] : nullptr; }

  const Plan& plan_;
  bool flows_;
  float* scores_;
  char* weights_;
  float *shrink_, *largest_;
  ForwardStep steps_[3];
  std::int64_t count_ = 0;  // since the last drain
};

}  // namespace strobe::cpu
