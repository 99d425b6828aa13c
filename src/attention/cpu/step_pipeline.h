// Runs the ForwardSteps of a row block one after the other. If the instruction set supports it, three consecutive
// ForwardSteps are software-pipelined (Isa::forward_pipelined). Used by forward.cpp, with one instance per row block.
#pragma once

#include <algorithm>

#include "attention/cpu/plan.h"

namespace strobe::cpu {

class StepPipeline {
 public:
  // Number of copies of the scratch. With software pipelining adjacent steps need separate copies.
  static int copies(const Plan& plan) { return pipelined(plan) ? 2 : 1; }

  // Scratch arrays: scores and probabilities are [copies][block_keys][n], shrink and largest [copies][n].
  StepPipeline(const Plan& plan, float* scores, char* probabilities, float* shrink, float* largest)
      : plan_(plan),
        pipelined_(pipelined(plan)),
        scores_(scores),
        probabilities_(probabilities),
        shrink_(shrink),
        largest_(largest) {}

  // Fields of a ForwardStep that differ between panels.
  struct Panel {
    void (*step)(const ForwardStep&);  // used without software pipelining
    const void* q;
    const Lanes* lanes;
    float *o, *max, *sum;
  };

  // Runs or enqueues the step of one panel, unless no lane sees a key of the block. `block` contains the fields that
  // panels share, except scratch. Pointers must stay valid until drain(). Copies `block` into a slot and then sets the
  // panel's fields in the slot. If the fields were set before the copy, the wide loads of the copy would have to wait
  // for these stores.
  void push(const ForwardStep& block, const Panel& panel) {
    if (std::max(panel.lanes->lo_min, block.key_begin) >=
        std::min(panel.lanes->hi_max, block.key_begin + block.key_count)) {
      return;
    }
    const bool alone = !pipelined_ || block.v_rows;
    if (alone) drain();
    const std::int64_t copy = pipelined_ ? count_ % 2 : 0, tile = std::int64_t{plan_.block_keys} * plan_.isa->n;
    ForwardStep& step = steps_[count_ % 3];
    step = block;
    step.q = panel.q;
    step.lanes = panel.lanes;
    step.o = panel.o;
    step.max = panel.max;
    step.sum = panel.sum;
    step.scores = scores_ + copy * tile;
    step.probabilities = probabilities_ ? probabilities_ + copy * tile * plan_.element : nullptr;
    step.shrink = shrink_ + copy * plan_.isa->n;
    step.largest = largest_ + copy * plan_.isa->n;
    if (alone) return panel.step(step);
    plan_.isa->forward_pipelined(back(2), back(1), &step);
    ++count_;
  }

  // Finishes the steps in flight.
  void drain() {
    if (count_ == 0) return;
    plan_.isa->forward_pipelined(back(2), back(1), nullptr);
    plan_.isa->forward_pipelined(back(1), nullptr, nullptr);
    count_ = 0;
  }

 private:
  static bool pipelined(const Plan& plan) { return plan.isa->forward_pipelined && plan.sum_chunk == kLongSumChunk; }

  const ForwardStep* back(std::int64_t by) const { return by <= count_ ? &steps_[(count_ - by) % 3] : nullptr; }

  const Plan& plan_;
  bool pipelined_;
  float* scores_;
  char* probabilities_;
  float *shrink_, *largest_;
  ForwardStep steps_[3];
  std::int64_t count_ = 0;  // since the last drain
};

}  // namespace strobe::cpu
