// What a model holds while it runs, operation by operation: every allocation, and inside the one run of memory that the
// plan divides the life of each tensor, from the operation that writes it to the last that reads it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "device/allocation_counter.h"
#include "lm/model.h"
#include "lm/profile/step_bench.h"

namespace strobe::lm {

// saved: written by the forward and read by the backward. passing: all other activations and their gradients. scores:
// attention's workspace and materialised scores, probabilities and their gradients. idle: the part of the run that
// holds no live tensor at the moment.
enum class Category { parameters, gradients, optimizer, saved, passing, scores, workspace, data, idle };
inline constexpr std::size_t kCategories = 9;
const char* name_of(Category category);

using ByCategory = std::array<std::size_t, kCategories>;  // bytes
std::size_t sum_of(const ByCategory& bytes);

// An allocation, or a tensor inside the run. From operation to operation, both included; before the first: -1.
struct Life {
  std::string name;
  Category category = Category::data;
  std::size_t bytes = 0;
  std::size_t at = 0;  // byte: of a tensor in the run, of an allocation among all that are held
  int from = -1, to = -1;
  std::string type{};     // element type, such as "bf16"; empty: untyped bytes
  bool is_saved = false;  // the forward wrote it and the backward reads it
};

struct MemoryTimeline {
  std::vector<std::string> operations;  // "linear layers.0.attention.q+k+v"
  std::vector<Phase> phases;            // of the operations
  std::vector<Life> allocations;        // in their order; one that is not freed lasts to the last operation
  std::vector<Life> tensors;
  std::vector<ByCategory> moments;  // of each operation: where most was held
  std::size_t run_at = 0;           // of the tensors' run among all that is held

  std::size_t peak_at() const;      // the operation in which most is held; of several, that in which most is in use
  std::size_t most_in_use() const;  // at any moment, without what is idle
  std::size_t most_saved() const;   // for the backward, at any moment
  std::size_t peak() const { return sum_of(moments.at(peak_at())); }
};

// Watches a counter from the first allocation of a model on, and the operations of the model once it is known.
class MemoryRecorder : public Recorder {
 public:
  explicit MemoryRecorder(AllocationCounter& counter);
  ~MemoryRecorder() override { counter_.observe({}); }
  MemoryRecorder(const MemoryRecorder&) = delete;
  MemoryRecorder& operator=(const MemoryRecorder&) = delete;

  void watch(Model& model);  // the model must outlive finish()
  MemoryTimeline finish();   // no more operations are told

  void begin(const Operation& operation) override;
  void end() override;

 private:
  // A life of one tensor: it ends where the next write that does not read it begins another.
  struct Tenant {
    std::size_t life;  // in timeline_.tensors
    Phase written;
  };

  void on(const AllocationEvent& event);
  void begin_life(std::size_t key, Life life, Phase phase);
  void read(std::size_t tensor, Phase phase);
  void write(const TensorUse& use, Phase phase);
  Life life_of(std::size_t tensor) const;
  void add_tensors_to_moments();

  AllocationCounter& counter_;
  Model* model_ = nullptr;
  MemoryTimeline timeline_;
  std::vector<const void*> pointers_;                // of the allocations; null where freed
  std::unordered_map<std::size_t, Tenant> tenants_;  // by index of the tensor; beyond the table by parameter
  ByCategory held_{};
  std::size_t top_ = 0;  // bytes held: where the next allocation is drawn
};

// --- one step, measured ----------------------------------------------------------------------------------------------

// Memory of one step: predicted, counted by the allocator, reported by the driver. `strobe lm memory` calls.
struct MemoryFigures {
  MemoryTimeline timeline;
  std::size_t predicted = 0;            // bytes held at most, from the shape alone
  std::size_t counted = 0;              // by the allocator
  std::optional<std::size_t> driver{};  // CUDA: what is gone of its free memory, kernels and handles not included
};

// One run of the case's pass on a new model. On CUDA after another, in which libraries load their kernels.
// Throws Error(out_of_memory) with the bytes asked for and free.
MemoryFigures measure_memory(const BenchCase& one);

// One tensor of the residual stream, [batch, context, d_model].
std::size_t residual_bytes(const BenchCase& one);

}  // namespace strobe::lm
