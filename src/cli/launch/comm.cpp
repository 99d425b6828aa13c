// Implements `strobe comm`, which measures the rates of collectives. Without a launcher it starts jobs of ranks, one
// after the other; each rank runs this code again.
#include <stdlib.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "app/help.h"
#include "app/terminal.h"
#include "bench/collective.h"
#include "cli/launch/comm_options.h"
#include "cli/launch/job.h"
#include "cli/report/row_file.h"
#include "cli/verbs.h"
#include "comm/agreement.h"
#include "core/counted.h"
#include "core/fail.h"
#include "core/short_number.h"
#include "measure/environment.h"
#include "report/collectives.h"
#include "report/memory_map.h"

namespace strobe::cli {
namespace {

constexpr const char* kCommIntroduction =
    "usage: strobe comm [--flag value ...]\n\n"
    "Checks and then times fp32 collectives between ranks. Runs of MPI_Allreduce alternate with runs of Strobe's "
    "all-reduce. Starts the\n"
    "ranks, or uses those of mpirun, srun or strobe launch. Writes each result row to FILE.jsonl once it is measured, "
    "then\n"
    "FILE.md and one SVG chart per operation in the same folder. If no size fits the memory, nothing is written and "
    "the\n"
    "exit code is 3.\n\n"
    "  strobe comm --sizes 1M,100M --ranks 2,4 --operations all-reduce\n\n";

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Json> rows_in(const std::string& text) {
  std::vector<Json> rows;
  for (std::size_t position = 0; position < text.size();) rows.push_back(Json::parse_next(text, position));
  return rows;
}

int print_results(const CommOptions& options, const std::vector<Json>& rows) {
  Table table = bench::collective_rows().table(rows);
  table.title = "Collectives of fp32";
  print(tables_text({&table, 1}));
  std::vector<Chart> charts;
  for (report::Figure& figure : report::collective_figures(rows)) {
    charts.push_back({.suffix = "-" + figure.id, .figure = std::move(figure)});
  }
  const std::vector<std::string> documents = write_documents(options.output, kCommTitle, charts, {&table, 1});
  print(fmt::format("written: {}, {}\n", options.output, fmt::join(documents, ", ")));
  const auto wrong = [](const Json& row) { return row.at("status").as_string() == "wrong"; };
  return std::any_of(rows.begin(), rows.end(), wrong) ? kFailedCheck : kFine;
}

// Runs on every rank of a job; only rank 0 writes and prints.
int measure(const CommOptions& options, const comm::World& world, const std::string& command) {
  const comm::Variable variable = [](const char* name) -> const char* { return getenv(name); };
  comm::Communicator communicator(world, {.engine = options.engines.front(),
                                          .limits = comm::limits_from(variable),
                                          .facts = {.build = build_revision(), .fingerprint = command}});
  const comm::EngineKind engine = communicator.engine();
  const bool on_gpu = options.on_gpu || engine == comm::EngineKind::nccl;
  const comm::Memory memory = on_gpu ? comm::Memory::gpu : comm::Memory::host;
  const bool first = communicator.rank() == 0;
  std::optional<RowFile> file;
  const bool appends = options.rows_for == RowsFor::launcher_after_others;
  comm::on_first_rank(communicator, [&] {
    file.emplace(options.output, kCommTitle, appends ? RowFile::Begin::append : RowFile::Begin::replace);
  });
  const bool reports = first && options.rows_for == RowsFor::people;  // otherwise the launcher sets the message
  if (reports) set_signal_message(fmt::format("comm: {}", kEndedWithoutRows));
  std::vector<Json> rows;
  for (const comm::Kind kind : options.operations) {
    for (const std::int64_t bytes : options.sizes) {
      const bool plain = options.plain && kind == comm::Kind::all_reduce && engine == comm::EngineKind::mpi &&
                         !on_gpu && bytes / 4 < comm::kChunk * 8;
      const bench::CollectiveResult result =
          bench::measure_collective(communicator, {.kind = kind, .bytes = bytes / 4 * 4, .memory = memory},
                                    options.rule, plain ? bench::Plain::measured : bench::Plain::left_out);
      if (!first) continue;
      Json row = bench::collective_rows().json({result, communicator});
      row.set("environment", environment_json()).set("command", command);
      if (result.status == "refused") {
        file->add_refused(row.dump());
      } else {
        // Set before add(), because the row is in the file before add() has synced it to disk.
        if (reports && file->rows() == 0) set_signal_message("comm: " + ended_with_rows(options.output));
        file->add(row.dump());
      }
      rows.push_back(std::move(row));
      show_progress(fmt::format("{}, {} of {}: {}", counted(communicator.size(), "rank"), comm::name_of(kind),
                                bytes_text(static_cast<std::size_t>(bytes)), result.status));
    }
  }
  show_progress("");
  if (!first) return kFine;
  const bool none = file->rows() == 0;
  if (none) {
    complain(fmt::format("comm: nothing was measured on {}: {}", counted(communicator.size(), "rank"),
                         rows.back().at("reason").as_string()));
  }
  if (options.rows_for != RowsFor::people) return kFine;  // the parent `strobe comm` checks the rows
  return none ? kRuntimeFailure : print_results(options, rows);
}

// Runs the jobs one after the other; each appends its rows to the output file.
int start_jobs(const CommOptions& options, Arguments arguments) {
  check_before_jobs(options);
  int code = kFine;
  const std::string before = contents_of(options.output);
  std::string rows;
  const auto if_ended = [&] { return "comm: " + (rows.empty() ? kEndedWithoutRows : ended_with_rows(options.output)); };
  set_signal_message(if_ended());
  for (const comm::EngineKind engine : options.engines) {
    for (const int ranks : options.ranks) {
      std::vector<std::string> words{"comm", fmt::format("--{}={}", kRowsFlag, rows.empty() ? "replace" : "append"),
                                     comm::name_of(engine)};
      words.insert(words.end(), arguments.begin(), arguments.end());
      const JobEnd end = run_job({.ranks = ranks, .command = own_command(words), .output = RankOutput::plain});
      if (std::string now = contents_of(options.output); now != before) rows = std::move(now);
      set_signal_message(if_ended());
      if (end.signal) {
        complain(if_ended());
        return end.code;
      }
      if (end.why.empty()) continue;
      complain(fmt::format("comm: {} on {}: {}", comm::name_of(engine), counted(ranks, "rank"), end.why));
      if (code == kFine) code = end.code;
    }
  }
  if (rows.empty()) return code == kFine ? kRuntimeFailure : code;
  const int printed = print_results(options, rows_in(rows));
  return code == kFine ? printed : code;
}

}  // namespace

int run_comm(Arguments arguments) {
  CommOptions options;
  std::optional<comm::EngineKind> engine;
  if (const std::string flag = fmt::format("--{}=", kRowsFlag);
      arguments.size() >= 2 && arguments[0].starts_with(flag)) {
    options.rows_for = arguments[0].ends_with("=append") ? RowsFor::launcher_after_others : RowsFor::launcher;
    engine = arguments[1] == "nccl" ? comm::EngineKind::nccl : comm::EngineKind::mpi;
    arguments = arguments.subspan(2);
  }
  OptionTable table = comm_option_table(options);
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(kCommIntroduction + table.help());
    return kFine;
  }
  check_comm_options(options);
  const comm::World world = comm::this_world();
  if (world.launcher.empty()) return start_jobs(options, arguments);
  if (!engine && options.engines.size() > 1)
    fail(ErrorCode::invalid_argument,
         "--engine: ranks that are already started can use only one engine; valid: one engine, or no launcher");
  if (engine) options.engines = {*engine};
  return measure(options, world, quoted_command("comm", arguments));
}

}  // namespace strobe::cli
