// Model on several ranks: each has a batch of its own, a share of the whole one, and all take the same steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lm/data_parallel/data_parallel.h"
#include "lm/model.h"

namespace strobe::lm {

// Sequences of a batch for each rank. Throws Error(invalid_argument) where ranks do not divide it.
std::int64_t batch_of_a_rank(std::int64_t batch, int ranks);

// Whose memory this rank's device has to hold, with this one's.
int ranks_that_share(const comm::World& world, Device device);

struct ParallelModelOptions {
  ParallelOptions exchange;
  std::vector<std::string> frozen{};  // parameters that training leaves as they are
};

class ParallelModel {
 public:
  // model: with OptimizerMemory::outside and a rank's batch; it outlives this. Its loss scale (fp16) must be the same
  // on all ranks. Training begins with rank 0's values on all ranks. Throws Error(invalid_argument) for a model with
  // optimizer state, and for names that are no parameters.
  ParallelModel(Model& model, comm::Communicator& communicator, const ParallelModelOptions& options);
  ~ParallelModel();
  ParallelModel(const ParallelModel&) = delete;
  ParallelModel& operator=(const ParallelModel&) = delete;

  void begin();  // rank 0's values, no optimizer state

  // tokens and targets: [ranks * model.batch(), context], the same on all ranks, each of which takes its rows. Loss and
  // norm are those of the whole batch. In fp16 all ranks skip a step in which the gradient of one overflows.
  StepResult step(const std::int32_t* tokens, const std::int32_t* targets, const StepOptions& options);

  // Mean loss of the first `counted` tokens of the whole batch.
  double loss_of_first(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t counted);

  const DataParallel& exchange() const { return exchange_; }
  DataParallel& exchange() { return exchange_; }

 private:
  std::int64_t first_token() const;  // of this rank's rows
  Model& model_;
  const comm::Communicator& communicator_;
  DataParallel exchange_;
};

}  // namespace strobe::lm
