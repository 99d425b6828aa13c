// Code for the commands of `strobe lm` that run on several ranks: gradient exchange flags, and the ranks themselves.
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

// Parses a bucket size of --bucket-mb; returns bytes.
std::int64_t parse_bucket(std::string_view flag, std::string_view value);

struct ExchangeFlags {
  std::string strategy;  // empty: one process
  std::optional<std::int64_t> bucket_bytes;
  std::string bucket_text;  // --bucket-mb as given
  comm::EngineKind engine = comm::EngineKind::automatic;
};

// --engine NAME.
Option make_engine_option(comm::EngineKind& engine);

// --ddp NAME, --bucket-mb N and --engine NAME.
void add_exchange_options(OptionTable& table, ExchangeFlags& flags);

std::vector<std::string> strategies_with_buckets();

// Throws Error(invalid_argument) if --bucket-mb is given for a strategy without buckets.
lm::ParallelOptions exchange_from(const ExchangeFlags& flags);

// Joins the ranks of the job that this process is in; outside of a job there is one rank. `command`, such as "lm
// train", is the same on all ranks.
std::unique_ptr<comm::Communicator> join_ranks(const std::string& command, comm::EngineKind engine);

// Throws AgreedRefusal(invalid_argument) on all ranks if the number of ranks does not divide the batch.
void check_batch(comm::Communicator& ranks, std::int64_t batch);

// Runs `work`, which returns the exit code. If all ranks agree on a refusal, the launcher or rank 0 prints it once and
// all ranks exit cleanly.
int end_together(comm::Communicator& ranks, const std::function<int()>& work);

// For work on a GPU: selects this rank's GPU for this thread.
void take_gpu(const comm::Communicator& ranks, Device device);

// Throws Error(unsupported) for an engine that is not built in or does not support the device's memory.
void check_engine(Device device, comm::EngineKind engine);

// Throws Error(invalid_argument) if this process is one of several ranks: without --ddp each would do all the work.
void refuse_several_ranks(const std::string& command);

}  // namespace strobe::cli
