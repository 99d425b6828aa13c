// Words to collectives, sizes and engines.
#include "cli/launch/comm_options.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "bench/collective.h"
#include "cli/bench/case_options.h"
#include "cli/report/row_file.h"
#include "core/atomic_file.h"
#include "core/counted.h"
#include "core/fail.h"
#include "core/printable.h"
#include "device/gpu_facts.h"
#include "report/memory_map.h"

namespace strobe::cli {
namespace {

constexpr comm::Kind kKinds[] = {comm::Kind::all_reduce, comm::Kind::broadcast, comm::Kind::reduce_scatter,
                                 comm::Kind::all_gather};
constexpr comm::EngineKind kEngines[] = {comm::EngineKind::mpi, comm::EngineKind::nccl};

// The values of a comma list, each one of `valid` by its name.
template <class T, std::size_t N>
std::vector<T> parse_names(std::string_view flag, std::string_view value, const T (&valid)[N]) {
  std::vector<std::string> names;
  for (const T one : valid) names.emplace_back(name_of(one));
  return parse_list(flag, value, [&](auto of, auto word) {
    const std::string name = parse_word(of, word, names);
    return *std::find_if(std::begin(valid), std::end(valid), [&](T one) { return name == name_of(one); });
  });
}

void check_engine(comm::EngineKind engine) {
  const char* why = engine == comm::EngineKind::nccl ? comm::why_no_nccl() : comm::why_no_mpi();
  if (why) fail(ErrorCode::unsupported, "--engine {}: {}", comm::name_of(engine), why);
}

}  // namespace

OptionTable comm_option_table(CommOptions& options) {
  OptionTable table;
  table.add({.name = "operations",
             .placeholder = "A,B",
             .help = "of all-reduce, broadcast, reduce-scatter, all-gather; default all",
             .apply = [&](auto flag, auto value) { options.operations = parse_names(flag, value, kKinds); }});
  table.add({.name = "sizes",
             .placeholder = "SIZE,SIZE",
             .help = "of the whole vector of fp32, such as 4K or 1M, powers of 1024; default 1M,10M,100M,1G",
             .apply = [&](auto flag, auto value) { options.sizes = parse_list(flag, value, parse_bytes); }});
  table.add({.name = "ranks",
             .placeholder = "N,N",
             .help = "how many are started, one job after the other; default 2,4,6; of no effect inside a job",
             .apply = [&](auto flag, auto value) {
               options.ranks = parse_list(
                   flag, value, [](auto of, auto word) { return static_cast<int>(parse_integer(of, word, 1, 1024)); });
             }});
  table.add({.name = "engine",
             .placeholder = "A,B",
             .help = "mpi or nccl, or both to compare them; default mpi",
             .apply = [&](auto flag, auto value) { options.engines = parse_names(flag, value, kEngines); }});
  table.add({.name = "device",
             .placeholder = "cpu|cuda",
             .help = "where the vectors lie; cuda with mpi: staged through pinned memory; default cpu, with nccl cuda",
             .apply = [&](auto flag, auto value) { options.on_gpu = parse_device(flag, value) == Device::cuda; }});
  table.add(make_switch("plain", "MPI_Allreduce in turns with our all-reduce; default on", options.plain));
  table.add({.name = "repeats",
             .placeholder = "N",
             .help = "exactly N samples; default: until the median is known within 1 %",
             .apply = [&](auto flag, auto value) {
               options.rule.repeats = static_cast<int>(parse_integer(flag, value, 1, 1000000));
             }});
  table.add({.name = "time-limit",
             .placeholder = "SECONDS",
             .help = "of sampling an operation and size; default 5",
             .apply = [&](auto flag, auto value) { options.rule.time_limit = parse_seconds(flag, value); }});
  table.add({.name = "output",
             .placeholder = "FILE",
             .help = "rows as JSON lines, with FILE's .md and .svg beside it; default comm.jsonl",
             .apply = [&](auto flag, auto value) { options.output = parse_text(flag, value); }});
  return table;
}

void check_comm_options(const CommOptions& options) {
  const std::string extension = std::filesystem::path(options.output).extension().string();
  if (extension != ".jsonl" && extension != ".json")
    fail(ErrorCode::invalid_argument, "--output {}: valid: a file that ends in .jsonl or .json",
         printable_value(options.output));
  for (const std::int64_t bytes : options.sizes) {
    if (bytes < 4) fail(ErrorCode::invalid_argument, "--sizes {}: valid: 4 bytes, one fp32, or more", bytes);
  }
  for (const comm::EngineKind engine : options.engines) check_engine(engine);
}

void check_before_jobs(const CommOptions& options) {
  const RowFile rows(options.output, kCommTitle);
  const AtomicFile document(document_beside(options.output), "--output");
  const auto& engines = options.engines;
  if (std::find(engines.begin(), engines.end(), comm::EngineKind::nccl) != engines.end()) {
    const CurrentGpu gpu = current_gpu();
    if (!gpu.reason.empty()) fail(ErrorCode::unsupported, "--engine nccl: {}; valid: mpi", gpu.reason);
    return;
  }
  if (options.on_gpu) return;
  const std::int64_t least = *std::min_element(options.sizes.begin(), options.sizes.end());
  const int fewest = *std::min_element(options.ranks.begin(), options.ranks.end());
  const std::string why = bench::why_it_does_not_fit({.bytes = least}, fewest);
  if (why.empty()) return;
  fail(ErrorCode::out_of_memory, "--sizes: none fits: {} on {}: {}",
       report::bytes_text(static_cast<std::size_t>(least)), counted(fewest, "rank"), why);
}

}  // namespace strobe::cli
