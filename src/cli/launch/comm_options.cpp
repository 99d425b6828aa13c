// Defines and checks the flags of `strobe comm`.
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
#include "core/short_number.h"
#include "device/gpu_facts.h"

namespace strobe::cli {
namespace {

constexpr comm::Kind kKinds[] = {comm::Kind::all_reduce, comm::Kind::broadcast, comm::Kind::reduce_scatter,
                                 comm::Kind::all_gather};
constexpr comm::EngineKind kEngines[] = {comm::EngineKind::mpi, comm::EngineKind::nccl};

// Parses a comma-separated list in which each item is the name of a value in `valid`.
template <class T, std::size_t N>
std::vector<T> parse_names(std::string_view flag, std::string_view value, const T (&valid)[N]) {
  std::vector<std::string> names;
  for (const T one : valid) names.emplace_back(name_of(one));
  return parse_list(flag, value, [&](auto of, auto word) {
    const std::string name = parse_word(of, word, names);
    return *std::find_if(std::begin(valid), std::end(valid), [&](T one) { return name == name_of(one); });
  });
}

void check_is_built(comm::EngineKind engine) {
  const char* why = engine == comm::EngineKind::nccl ? comm::why_no_nccl() : comm::why_no_mpi();
  if (why) fail(ErrorCode::unsupported, "--engine {}: {}", comm::name_of(engine), why);
}

}  // namespace

OptionTable comm_option_table(CommOptions& options) {
  OptionTable table;
  table.begin_group("problem");
  table.add("operations", "A,B", "all-reduce, broadcast, reduce-scatter, all-gather; default all",
            [&](auto flag, auto value) { options.operations = parse_names(flag, value, kKinds); });
  table.add("sizes", "SIZE,SIZE",
            "bytes of the whole fp32 vector, such as 4K or 1M (powers of 1024); default 1M,10M,100M,1G",
            [&](auto flag, auto value) { options.sizes = parse_list(flag, value, parse_bytes); });
  table.add("ranks", "N,N", "ranks to start, one job after the other; default 2,4,6; no effect under a launcher",
            [&](auto flag, auto value) {
              options.ranks = parse_list(
                  flag, value, [](auto of, auto word) { return static_cast<int>(parse_integer(of, word, 1, 1024)); });
            });
  table.add("engine", "A,B", "mpi or nccl, or both to compare them; default mpi",
            [&](auto flag, auto value) { options.engines = parse_names(flag, value, kEngines); });
  table.add("device", "cpu|cuda",
            "memory of the vectors; with mpi, cuda is staged through pinned memory; default cpu, or cuda with nccl",
            [&](auto flag, auto value) { options.on_gpu = parse_device(flag, value) == Device::cuda; });
  table.add(
      make_switch("plain", "also time MPI_Allreduce, alternating with Strobe's all-reduce; default on", options.plain));
  table.begin_group("measurement");
  table.add("repeats", "N", "exactly N samples; default: until the median is known within 1 %",
            integer_into(options.rule.repeats, 1, 1000000));
  table.add("time-limit", "SECONDS", "seconds of sampling per operation and size; default 5",
            into(options.rule.time_limit, parse_seconds));
  table.begin_group("output");
  table.add("output", "FILE", "rows as JSON lines; .md and .svg have the same name; default comm.jsonl",
            into(options.output, parse_text));
  return table;
}

void check_comm_options(const CommOptions& options) {
  const std::string extension = std::filesystem::path(options.output).extension().string();
  if (extension != ".jsonl" && extension != ".json")
    fail(ErrorCode::invalid_argument, "--output {}: valid: a file that ends in .jsonl or .json",
         printable_value(options.output));
  for (const std::int64_t bytes : options.sizes) {
    if (bytes < 4) fail(ErrorCode::invalid_argument, "--sizes {}: valid: 4 bytes (one fp32) or more", bytes);
  }
  for (const comm::EngineKind engine : options.engines) check_is_built(engine);
}

void check_before_jobs(const CommOptions& options) {
  const RowFile rows(options.output, kCommTitle);
  const AtomicFile document(document_next_to(options.output), "--output");
  const auto& engines = options.engines;
  if (std::find(engines.begin(), engines.end(), comm::EngineKind::nccl) != engines.end()) {
    const CurrentGpu gpu = current_gpu();
    if (!gpu.reason.empty()) fail(ErrorCode::unsupported, "--engine nccl: {}; valid: mpi", gpu.reason);
    return;
  }
  if (options.on_gpu) return;
  const std::int64_t least = *std::min_element(options.sizes.begin(), options.sizes.end());
  const int fewest = *std::min_element(options.ranks.begin(), options.ranks.end());
  const std::string why = bench::memory_shortage({.bytes = least}, fewest);
  if (why.empty()) return;
  fail(ErrorCode::out_of_memory, "--sizes: none fits: {} on {}: {}", bytes_text(static_cast<std::size_t>(least)),
       counted(fewest, "rank"), why);
}

}  // namespace strobe::cli
