// Implements joining the ranks of a job, the checks that they make together, and the flags of a gradient exchange.
#include "cli/lm/ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>

#include <algorithm>
#include <vector>

#include "app/program.h"
#include "app/terminal.h"
#include "cli/verbs.h"
#include "comm/agreement.h"
#include "comm/engine.h"
#include "core/counted.h"
#include "core/fail.h"
#include "device/device_info.h"
#include "device/gpu_facts.h"
#include "lm/data_parallel/parallel_model.h"
#include "measure/environment.h"

namespace strobe::cli {
namespace {

constexpr double kLeastMegabytes = 4e-6, kMostMegabytes = 1e6;  // bucket sizes; the smallest is one fp32 element

}  // namespace

std::vector<std::string> strategies_with_buckets() {
  std::vector<std::string> names;
  for (const lm::Strategy& strategy : lm::strategies()) {
    if (strategy.grouping == lm::Grouping::buckets) names.emplace_back(strategy.name);
  }
  return names;
}

std::int64_t parse_bucket(std::string_view flag, std::string_view value) {
  return static_cast<std::int64_t>(1e6 * parse_number(flag, value, kLeastMegabytes, kMostMegabytes));
}

Option make_engine_option(comm::EngineKind& engine) {
  return {.name = "engine",
          .placeholder = "auto|mpi|nccl",
          .help =
              "engine of --ddp; mpi: not under torchrun; nccl: one rank per GPU, also under torchrun; default auto: "
              "mpi, or none for one rank",
          .apply = [&](auto flag, auto value) {
            const std::string word = parse_word(flag, value, {"auto", "mpi", "nccl"});
            engine = word == "nccl"  ? comm::EngineKind::nccl
                     : word == "mpi" ? comm::EngineKind::mpi
                                     : comm::EngineKind::automatic;
          }};
}

void add_exchange_options(OptionTable& table, ExchangeFlags& flags) {
  table.add("ddp", "NAME",
            fmt::format("train on the ranks of `strobe launch` or mpirun, each on its part of the batch: {}",
                        fmt::join(lm::strategy_names(), ", ")),
            word_into(flags.strategy, lm::strategy_names()));
  table.add("bucket-mb", "N", "MB of gradients per call, for strategies with buckets; default 25",
            [&](auto flag, auto value) {
              flags.bucket_bytes = parse_bucket(flag, value);
              flags.bucket_text = value;
            });
  table.add(make_engine_option(flags.engine));
}

lm::ParallelOptions exchange_from(const ExchangeFlags& flags) {
  if (flags.bucket_bytes && flags.strategy.empty()) {
    fail(ErrorCode::invalid_argument, "--bucket-mb {}: without --ddp nothing is exchanged; valid with --ddp {}",
         flags.bucket_text, fmt::join(strategies_with_buckets(), ", "));
  }
  lm::ParallelOptions exchange{.strategy = lm::strategy_of(flags.strategy)};
  if (!flags.bucket_bytes) return exchange;
  if (exchange.strategy.grouping != lm::Grouping::buckets) {
    fail(ErrorCode::invalid_argument, "--bucket-mb {}: --ddp {} has no buckets; valid with {}", flags.bucket_text,
         flags.strategy, fmt::join(strategies_with_buckets(), ", "));
  }
  exchange.bucket_bytes = *flags.bucket_bytes;
  return exchange;
}

std::unique_ptr<comm::Communicator> join_ranks(const std::string& command, comm::EngineKind engine) {
  const comm::Variable variable = [](const char* name) -> const char* { return getenv(name); };
  return std::make_unique<comm::Communicator>(
      comm::this_world(), comm::CommunicatorOptions{.engine = engine,
                                                    .limits = comm::limits_from(variable),
                                                    .facts = {.build = build_revision(), .fingerprint = command}});
}

void check_batch(comm::Communicator& ranks, std::int64_t batch) {
  comm::on_first_rank(ranks, [&] { lm::batch_of_a_rank(batch, ranks.size()); });
}

int end_together(comm::Communicator& ranks, const std::function<int()>& work) {
  int code = kFine;
  try {
    return work();
  } catch (const comm::AgreedRefusal& refusal) {
    code = refusal.code() == ErrorCode::runtime ? kRuntimeFailure : kBadInput;
    const bool reported = code == kBadInput && report_to_launcher(refusal.what());
    if (!reported && ranks.rank() == 0) complain(refusal.what());
  }
  ranks.barrier();  // so that the line is printed before the first exit code makes mpirun end the job
  return code;
}

void take_gpu(const comm::Communicator& ranks, Device device) {
  if (device != Device::cuda) return;
  const int gpus = gpu_count();  // gpu_inventory() would create a context per rank on the first GPU
  if (gpus == 0) fail(ErrorCode::unsupported, "--device cuda: {}; valid: cpu", gpu_inventory().reason);
  use_gpu(comm::gpu_of(ranks.world(), gpus));
}

void check_engine(Device device, comm::EngineKind engine) {
  const char* const why = engine == comm::EngineKind::nccl  ? comm::why_no_nccl()
                          : engine == comm::EngineKind::mpi ? comm::why_no_mpi()
                                                            : nullptr;
  if (why) fail(ErrorCode::unsupported, "--engine {}: {}", comm::name_of(engine), why);
  if (engine == comm::EngineKind::nccl && device != Device::cuda) {
    fail(ErrorCode::unsupported, "--engine nccl: needs --device cuda; valid with --device cpu: mpi");
  }
}

void refuse_several_ranks(const std::string& command) {
  const comm::World world = comm::this_world();
  if (world.rank == 0 && world.size <= 1) return;  // size 0: the launcher does not state the size
  fail(ErrorCode::invalid_argument, "{}: {} without --ddp; valid: --ddp {}, or one rank", command,
       counted(std::max(world.size, world.rank + 1), "rank"), fmt::join(lm::strategy_names(), "|"));
}

}  // namespace strobe::cli
