// What commands of `strobe lm` that run on several ranks share: how gradients are exchanged, and the ranks themselves.
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

// The buckets of --bucket-mb, in bytes.
std::int64_t parse_bucket(std::string_view flag, std::string_view value);

struct ExchangeFlags {
  std::string strategy;  // empty: one process
  std::optional<std::int64_t> bucket_bytes;
  std::string bucket_text;  // --bucket-mb as it was given
  comm::EngineKind engine = comm::EngineKind::automatic;
};

// --engine NAME.
Option make_engine_option(comm::EngineKind& engine);

// --ddp NAME, --bucket-mb N and --engine NAME.
void add_exchange_options(OptionTable& table, ExchangeFlags& flags);

std::vector<std::string> strategies_with_buckets();

// Throws Error(invalid_argument) for a --bucket-mb where there are no buckets.
lm::ParallelOptions exchange_from(const ExchangeFlags& flags);

// The ranks of the job that this process is in, which is one rank where it was started alone. command: "lm train", the
// same on all.
std::unique_ptr<comm::Communicator> join_ranks(const std::string& command, comm::EngineKind engine);

// Throws AgreedRefusal(invalid_argument) on all ranks if they do not divide the batch.
void check_batch(comm::Communicator& ranks, std::int64_t batch);

// Runs `work`, which returns the exit code. A refusal that all ranks agree on is printed once, by the launcher or by
// rank 0, and all ranks leave in order.
int end_together(comm::Communicator& ranks, const std::function<int()>& work);

// Where the work is on a GPU: this thread's is from now on the one that is this rank's turn.
void take_gpu(const comm::Communicator& ranks, Device device);

// Throws Error(unsupported) for an engine that is not built in or does not take the device's memory.
void check_engine(Device device, comm::EngineKind engine);

// Throws Error(invalid_argument) where this process is one of several ranks: without --ddp each would do it all.
void refuse_several_ranks(const std::string& command);

}  // namespace strobe::cli
