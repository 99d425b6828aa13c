// Code for the `strobe lm` commands that run on several ranks: flags of the gradient exchange, joining the ranks, and
// checks that all ranks make together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/options.h"
#include "comm/communicator.h"
#include "lm/data_parallel/data_parallel.h"
#include "strobe/attention.h"

namespace strobe::cli {

// Parses the value of --bucket-mb and returns bytes.
std::int64_t parse_bucket(std::string_view flag, std::string_view value);

struct ExchangeFlags {
  std::string strategy;  // empty: one process
  std::optional<std::int64_t> bucket_bytes;
  std::string bucket_text;  // --bucket-mb as given
  comm::EngineKind engine = comm::EngineKind::automatic;
};

// Returns the option --engine NAME.
Option make_engine_option(comm::EngineKind& engine);

// Adds --ddp NAME, --bucket-mb N and --engine NAME.
void add_exchange_options(OptionTable& table, ExchangeFlags& flags);

std::vector<std::string> strategies_with_buckets();

// Returns the options of the gradient exchange. Throws Error(invalid_argument) if --bucket-mb is given without --ddp or
// for a strategy without buckets.
lm::ParallelOptions exchange_from(const ExchangeFlags& flags);

// Connects this process to the other ranks of its job; outside of a job it is the only rank. `command`, such as
// "lm train", must be the same on all ranks.
std::unique_ptr<comm::Communicator> join_ranks(const std::string& command, comm::EngineKind engine);

// Throws AgreedRefusal(invalid_argument) on all ranks if the number of ranks does not divide the batch.
void check_batch(comm::Communicator& ranks, std::int64_t batch);

// Runs `work`, which returns the exit code. If all ranks agree on an error (AgreedRefusal), the launcher or rank 0
// prints it once and all ranks exit with kBadInput, or with kRuntimeFailure if its code is runtime.
int end_together(comm::Communicator& ranks, const std::function<int()>& work);

// Selects this rank's GPU for this thread if `device` is CUDA.
void take_gpu(const comm::Communicator& ranks, Device device);

// Throws Error(unsupported) if the engine is not built in or does not support the device.
void check_engine(Device device, comm::EngineKind engine);

// Throws Error(invalid_argument) if this process is one of several ranks: without --ddp each would do all the work.
void refuse_several_ranks(const std::string& command);

}  // namespace strobe::cli
