// ParallelModel trains a model on several ranks. Each rank computes its share of the batch, and all ranks get the same
// parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lm/data_parallel/data_parallel.h"
#include "lm/model.h"

namespace strobe::lm {

// Returns the sequences per rank. Throws Error(invalid_argument) if the number of ranks does not divide the batch.
std::int64_t batch_of_a_rank(std::int64_t batch, int ranks);

// Returns the number of ranks, including this one, that use the memory of this rank's device.
int ranks_that_share(const comm::World& world, Device device);

struct ParallelModelOptions {
  ParallelOptions exchange;
  std::vector<std::string> frozen{};  // parameters that training does not update
};

class ParallelModel {
 public:
  // `model` must have OptimizerMemory::outside and the batch size of one rank, and must outlive this object. Its loss
  // scale (fp16) must be equal on all ranks. Throws Error(invalid_argument) if the model has optimizer state, or if
  // `frozen` has an unknown name.
  ParallelModel(Model& model, comm::Communicator& communicator, const ParallelModelOptions& options);
  ~ParallelModel();
  ParallelModel(const ParallelModel&) = delete;
  ParallelModel& operator=(const ParallelModel&) = delete;

  void begin();  // broadcasts rank 0's values and clears the optimizer state

  // Takes one training step. `tokens` and `targets` are [ranks * model.batch(), context] and equal on all ranks; each
  // rank reads only its own sequences. Loss and norm are those of the whole batch. In fp16 all ranks skip the step if
  // the gradient of any rank overflows.
  StepResult step(const std::int32_t* tokens, const std::int32_t* targets, const StepOptions& options);

  // Returns the mean loss of the first `counted` tokens of the whole batch, on all ranks.
  double loss_of_first(const std::int32_t* tokens, const std::int32_t* targets, std::int64_t counted);

  const DataParallel& exchange() const { return exchange_; }
  DataParallel& exchange() { return exchange_; }

 private:
  std::int64_t first_token() const;  // index of the first token of this rank's sequences
  Model& model_;
  const comm::Communicator& communicator_;
  DataParallel exchange_;
};

}  // namespace strobe::lm
