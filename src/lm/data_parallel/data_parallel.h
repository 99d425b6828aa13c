// Ranks that train one set of parameters, each on its share of the batch: gradients exchanged as a strategy says, while
// backward goes on or after it, then AdamW on what is this rank's. Knows memory and tensors, not what made the
// gradients: parallel_model.h brings it together with Model.
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

// One rank's parameters and their gradients, fp32 in memory of the place; tensors are runs of both.
struct Replica {
  float *values = nullptr, *gradients = nullptr;
  std::int64_t count = 0;  // of each
  std::vector<Tensor> tensors;
  ops::Place place{.threads = 1};
  const GpuStream* stream = nullptr;  // CUDA: the place's, which backward is put on
};

struct ParallelOptions {
  Strategy strategy;
  std::int64_t bucket_bytes = 25'000'000;
};

struct ParallelEvent {
  enum class Kind { bucket_started, backward_ended };  // on CUDA a bucket is started as soon as its gradients are
  Kind kind;                                           // queued; its call begins when they are there
  std::size_t bucket = 0;
  double seconds = 0;  // on the clock of core/clock.h
};

struct ParallelCall {
  comm::Kind kind = comm::Kind::all_reduce;
  std::int64_t bucket = -1;  // -1: the sum of squares for the norm
  std::int64_t bytes = 0;    // of the vector that it is about
  comm::CallTimes times{};
};

// What a step exchanged, seen from this rank.
struct StepRecord {
  std::int64_t calls = 0, bytes = 0;                              // of all_calls
  double hidden = 0, exposed = 0;                                 // seconds of calls before and after backward ended
  double optimizer = 0;                                           // seconds of the norm and AdamW, without calls
  double backward_ended = 0, update_began = 0, update_ended = 0;  // moments
  std::vector<ParallelEvent> events;
  std::vector<ParallelCall> all_calls;  // in their order
};

// Handling of a gradient that is not finite: the update is applied, or skipped on all ranks (fp16).
enum class Overflow { applied, skipped };

struct ParallelUpdate {
  double norm = 0;       // norm of the mean gradient before clipping; equal on all ranks
  bool skipped = false;  // the same on all ranks
};

class DataParallel {
 public:
  // Memory and stream of the replica and the communicator must outlive it. Throws Error(invalid_argument) for tensors
  // outside of the memory.
  DataParallel(comm::Communicator& communicator, const Replica& replica, const ParallelOptions& options);
  // Waits for calls under way; during an exception it gives up first, and the others learn of it.
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  // Rank 0's values everywhere, frozen ones too; the optimizer state is zero.
  void begin();

  // In a step, in this order: ready for each use of each tensor, as backward ends with it (on CUDA: has put its
  // gradient on the stream); then finish. All ranks in the same order. finish clips the mean gradient to the norm
  // `clip` (0: any).
  void ready(std::size_t tensor);
  ParallelUpdate finish(const ops::AdamW& adamw, double clip, Overflow overflow = Overflow::applied);

  double mean_of_ranks(double value);

  // AdamW's averages of elements from `first` on; 0 where nothing is trained. All ranks read together, each has the
  // whole piece then. Writing keeps of a whole piece what is this rank's.
  enum class Average { mean, variance };
  void read_average(Average which, std::int64_t first, std::span<float> out);
  void write_average(Average which, std::int64_t first, std::span<const float> in);

  const std::vector<Bucket>& buckets() const { return buckets_; }
  bool exchanged(std::size_t bucket) const;                   // this step's sums of the bucket are there
  const StepRecord& record() const { return record_; }        // of the last step, after finish
  std::size_t state_bytes() const { return state_.bytes(); }  // AdamW's averages on this rank

 private:
  struct Group {                                // of a bucket
    std::int64_t own_first = 0, own_count = 0;  // of the run: what this rank updates
    std::int64_t state_first = 0;               // where its averages lie
    int left = 0;                               // uses that backward has not come to
    bool started = false;
    comm::Pending sums;
    std::unique_ptr<GpuEvent> ready;  // CUDA: its gradients are there
  };

  void open_record();
  void start(std::size_t bucket);
  comm::Pending counted(comm::Pending call, const ParallelCall& what);
  void wait_for_sums();
  void limit(ops::Update update);  // in update_ then
  void gather_values();
  void measure_calls();
  comm::Elements placed(float* data, std::int64_t count) const;
  std::vector<ops::Trained> own_part() const;                    // what this rank updates
  std::vector<ops::Trained> whole() const;                       // all that is trained, with summed gradients
  comm::Share updated_by(int rank, const Bucket& bucket) const;  // elements of the run
  // Where in state_ those of an element lie that this rank updates; in bytes.
  std::size_t average_at(Average which, const Group& group, std::int64_t element) const;

  comm::Communicator& communicator_;
  Replica replica_;
  Strategy strategy_;
  std::vector<Bucket> buckets_;
  std::vector<Group> groups_;
  std::vector<std::size_t> bucket_of_;  // by tensor; kNone: frozen
  Memory state_;                        // [mean | variance] of what this rank updates
  Memory scattered_;                    // Updates::scattered_share: sums of this rank's shares
  Memory update_;                       // an ops::Update, as kernels read it
  std::int64_t own_count_ = 0;
  std::vector<comm::Pending> calls_;  // of the step
  StepRecord record_;
  bool recorded_ = true;  // the record is a whole step's, and the next one has not begun
  int exceptions_;        // under way when this was made
};

}  // namespace strobe::lm
