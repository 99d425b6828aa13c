// DataParallel trains one set of parameters on several ranks, each with its share of the batch. The ranks exchange
// gradients during or after backward, as the strategy defines. Then each rank updates its part of the parameters
// with AdamW. The class knows arrays of parameters and gradients, but no model; parallel_model.h combines it with
// Model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "device/gpu_stream.h"
#include "lm/data_parallel/strategy.h"
#include "lm/state/memory.h"
#include "ops/optimizer.h"

namespace strobe::lm {

// Parameters and gradients of one rank: fp32 arrays in the memory of its device. `tensors` are ranges of both arrays.
struct Replica {
  float *values = nullptr, *gradients = nullptr;
  std::int64_t count = 0;  // elements of each array
  std::vector<Tensor> tensors;
  ops::ExecutionContext execution{.threads = 1};
  const GpuStream* stream = nullptr;  // CUDA: the stream on which backward runs
};

struct ParallelOptions {
  Strategy strategy;
  std::int64_t bucket_bytes = 25'000'000;  // maximum bytes of fp32 gradients per bucket, with Grouping::buckets
};

// Start of a bucket's exchange, or end of backward. On CUDA a bucket starts when the kernels of its gradients are
// queued on the stream; the collective waits until they have run.
struct ParallelEvent {
  enum class Kind { bucket_started, backward_ended };
  Kind kind;
  std::size_t bucket = 0;
  double seconds = 0;  // on the clock of core/clock.h
};

// One collective of a step.
struct ParallelCall {
  comm::Kind kind = comm::Kind::all_reduce;
  std::int64_t bucket = -1;  // -1: all-reduce of the squared gradient norm
  std::int64_t bytes = 0;    // size of the exchanged vector
  comm::CallTimes times{};
};

// Collectives of one step, as measured on this rank.
struct StepRecord {
  std::int64_t calls = 0, bytes = 0;                              // totals of all_calls
  double hidden = 0, exposed = 0;                                 // seconds of calls during backward, and after it
  double optimizer = 0;                                           // seconds of norm and AdamW, without the all-reduce
  double backward_ended = 0, update_began = 0, update_ended = 0;  // on the clock of core/clock.h
  std::vector<ParallelEvent> events;
  std::vector<ParallelCall> all_calls;  // in call order
};

// Selects what happens if a gradient is not finite: AdamW applies the update, or all ranks skip it (fp16).
enum class Overflow { applied, skipped };

struct ParallelUpdate {
  double norm = 0;       // norm of the mean gradient before clipping; equal on all ranks
  bool skipped = false;  // equal on all ranks
};

class DataParallel {
 public:
  // The replica's memory, its stream and the communicator must outlive this object. Throws Error(invalid_argument) if a
  // tensor is out of bounds or its `uses` is below 1.
  DataParallel(comm::Communicator& communicator, const Replica& replica, const ParallelOptions& options);
  // Waits for pending calls. During stack unwinding it first aborts the communicator, which notifies the other ranks.
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // Broadcasts rank 0's values, including frozen ones, and sets the optimizer state to zero.
  void begin();

  // Call ready() during backward, once per use of each tensor, as soon as the gradient of that use is computed (on
  // CUDA: queued on the stream). The order must be the same on all ranks. Call finish() after backward. It clips the
  // mean gradient to the norm `clip` (0: no clipping) and updates the values.
  void ready(std::size_t tensor);
  ParallelUpdate finish(const ops::AdamW& adamw, double clip, Overflow overflow = Overflow::applied);

  double mean_of_ranks(double value);

  // Read and write AdamW's moments of elements [first, first + size). The moments of frozen parameters are 0. A read is
  // collective and returns the range on every rank. For a write, every rank passes the whole range and stores its
  // share.
  enum class Average { mean, variance };
  void read_average(Average which, std::int64_t first, std::span<float> out);
  void write_average(Average which, std::int64_t first, std::span<const float> in);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  bool exchanged(std::size_t bucket) const;                   // true if this step's sums of the bucket are available
  const StepRecord& record() const { return record_; }        // record of the last step; valid after finish
  std::size_t state_bytes() const { return state_.bytes(); }  // AdamW's moments on this rank

 private:
  struct Group {                                // state of one bucket
    std::int64_t own_first = 0, own_count = 0;  // range of the replica's elements that this rank updates
    std::int64_t state_first = 0;               // offset of that range's moments in state_, in elements
    int left = 0;                               // number of ready() calls still to come in this step
    bool started = false;
    comm::Pending sums;
    std::unique_ptr<GpuEvent> ready;  // CUDA: recorded after the bucket's gradients
  };

  void open_record();
  void start(std::size_t bucket);
  comm::Pending counted(comm::Pending call, const ParallelCall& what);
  void wait_for_sums();
  void limit(ops::Update update);  // computes norm and clipping factor
  void gather_values();
  void measure_calls();
  comm::Elements placed(float* data, std::int64_t count) const;
  std::vector<ops::Trained> own_part() const;                    // ranges that this rank updates
  std::vector<ops::Trained> whole() const;                       // all trained ranges, with summed gradients
  comm::Share updated_by(int rank, const Bucket& bucket) const;  // elements that `rank` updates
  // Returns the byte offset in state_ of a moment of an element that this rank updates.
  std::size_t average_at(Average which, const Group& group, std::int64_t element) const;

  comm::Communicator& communicator_;
  Replica replica_;
  Strategy strategy_;
  std::vector<Bucket> buckets_;
  std::vector<Group> groups_;
  std::vector<std::size_t> bucket_of_;  // per tensor; kNone: frozen
  Memory state_;                        // [mean | variance] of the ranges that this rank updates
  Memory scattered_;                    // Updates::scattered_share: gradient sums of this rank's shares
  Memory update_;                       // an ops::Update, where kernels read it
  std::int64_t own_count_ = 0;
  std::vector<comm::Pending> calls_;  // the step's calls
  StepRecord record_;
  bool recorded_ = true;  // the record is complete and the next step has not begun
  int exceptions_;        // uncaught exceptions at construction
};

}  // namespace strobe::lm
