// Flags of `strobe comm`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/options.h"
#include "comm/communicator.h"
#include "measure/stopping_rule.h"

namespace strobe::cli {

// Reader of the result rows of a job. people: the job also prints a table. launcher: the parent `strobe comm` prints
// the results of all its jobs. launcher_after_others: as launcher, and the rows are appended to those of earlier jobs.
enum class RowsFor { people, launcher, launcher_after_others };

struct CommOptions {
  std::vector<comm::Kind> operations{comm::Kind::all_reduce, comm::Kind::broadcast, comm::Kind::reduce_scatter,
                                     comm::Kind::all_gather};
  std::vector<std::int64_t> sizes{1 << 20, 10 << 20, 100 << 20, 1 << 30};  // bytes
  std::vector<int> ranks{2, 4, 6};
  std::vector<comm::EngineKind> engines{comm::EngineKind::mpi};
  bool on_gpu = false;
  bool plain = true;
  StoppingRule rule{.time_limit = 5};
  std::string output = "comm.jsonl";
  RowsFor rows_for = RowsFor::people;
};

inline constexpr const char* kCommTitle = "Collectives";  // title of the Markdown file next to the rows

OptionTable comm_option_table(CommOptions& options);

// Internal flag, the first argument of the ranks that `strobe comm` starts. Its value selects a new file or appended
// rows; the next word is the engine.
inline constexpr const char* kRowsFlag = "launcher-rows";

// Throws Error(invalid_argument) for an invalid output name or size, Error(unsupported) for an engine that is not built
// in.
void check_comm_options(const CommOptions& options);

// Runs the checks that every rank would run, once and before any rank starts. Throws Error(unsupported) if an engine
// needs a GPU and there is none, Error(invalid_argument) if the output cannot be written, Error(out_of_memory) if not
// even the smallest case fits.
void check_before_jobs(const CommOptions& options);

}  // namespace strobe::cli
