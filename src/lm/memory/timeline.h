// Records the memory of a model over the operations of a step: every allocation, and the lifetime of each tensor in the
// arena. The arena is the contiguous allocation that the memory plan (models/activations.h) divides among its tensors.
// `strobe lm memory` and `strobe lm bench` use it. A lifetime goes from the operation that writes a tensor to the last
// one that reads it.
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

// - saved: activations that the forward writes and the backward reads.
// - transient: all other activations, and the gradients of activations.
// - scores: attention's workspace; materialised scores, probabilities and their gradients.
// - idle: bytes of the arena that hold no live tensor.
enum class Category { parameters, gradients, optimizer, saved, transient, scores, workspace, data, idle };
inline constexpr std::size_t kCategories = 9;
const char* name_of(Category category);

using ByCategory = std::array<std::size_t, kCategories>;  // bytes
std::size_t sum_of(const ByCategory& bytes);

// An allocation, or a tensor in the arena, that is live from operation `from` to operation `to`, both included. -1 is
// the time before the first operation.
struct Lifetime {
  std::string name;
  Category category = Category::data;
  std::size_t bytes = 0;
  std::size_t at = 0;  // of a tensor: byte offset in the arena; of an allocation: bytes that were allocated before it
  int from = -1, to = -1;
  std::string type{};     // element type, such as "bf16"; empty: untyped bytes
  bool is_saved = false;  // written by the forward and read by the backward
};

struct MemoryTimeline {
  std::vector<std::string> operations;  // "linear layers.0.attention.q+k+v"
  std::vector<Phase> phases;            // per operation
  std::vector<Lifetime> allocations;    // in order of allocation; if not freed, live to the last operation
  std::vector<Lifetime> tensors;
  std::vector<ByCategory> moments;  // per operation: bytes at the operation's peak
  std::size_t arena_at = 0;         // bytes that were allocated before the arena

  std::size_t peak_at() const;      // index of the operation with the most bytes; ties go to the fewest idle bytes
  std::size_t most_in_use() const;  // peak bytes without idle
  std::size_t most_saved() const;   // peak bytes saved for backward
  std::size_t peak() const { return sum_of(moments.at(peak_at())); }
};

// Observes an allocator from construction on, and the operations of a model from watch() on. Construct it before the
// model.
class MemoryRecorder : public Recorder {
 public:
  explicit MemoryRecorder(AllocationCounter& counter);
  ~MemoryRecorder() override { counter_.observe({}); }
  MemoryRecorder(const MemoryRecorder&) = delete;
  MemoryRecorder& operator=(const MemoryRecorder&) = delete;

  void watch(Model& model);  // the model must outlive finish()
  MemoryTimeline finish();   // stops recording

  void begin(const Operation& operation) override;
  void end() override;

 private:
  // The current lifetime of a tensor's memory. A write that does not also read the tensor begins a new lifetime.
  struct Tenant {
    std::size_t lifetime;  // index in timeline_.tensors
    Phase written;
  };

  void on(const AllocationEvent& event);
  void begin_lifetime(std::size_t key, Lifetime lifetime, Phase phase);
  void read(std::size_t tensor, Phase phase);
  void write(const TensorUse& use, Phase phase);
  Lifetime lifetime_of(std::size_t tensor) const;
  void add_tensors_to_moments();

  AllocationCounter& counter_;
  Model* model_ = nullptr;
  MemoryTimeline timeline_;
  std::vector<const void*> pointers_;  // per allocation; null once it is freed
  // The key is the table index of a tensor. For a gradient it is the size of the table plus the index of the parameter.
  std::unordered_map<std::size_t, Tenant> tenants_;
  ByCategory held_{};
  std::size_t top_ = 0;  // bytes of all live allocations; becomes `at` of the next one
};

// --- one step, measured ----------------------------------------------------------------------------------------------

// Memory of one step as predicted, as counted by the allocator, and as reported by the driver. `strobe lm memory` uses
// it.
struct MemoryFigures {
  MemoryTimeline timeline;
  std::size_t predicted = 0;            // peak bytes, computed from the shape
  std::size_t counted = 0;              // peak bytes of the allocator
  std::optional<std::size_t> driver{};  // CUDA: decrease of free memory, excluding kernels and handles
};

// Runs the case's pass once on a new model and measures its memory. On CUDA the pass runs once before the
// measurement, so that libraries have loaded their kernels. Throws Error(out_of_memory) with the bytes requested and
// free.
MemoryFigures measure_memory(const BenchCase& one);

// Returns the bytes of one tensor of the residual stream, [batch, context, d_model].
std::size_t residual_bytes(const BenchCase& one);

}  // namespace strobe::lm
