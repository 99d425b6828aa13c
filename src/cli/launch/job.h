// Runs a job: mpirun starts the ranks as local processes, and they end together. Used by `strobe launch` and
// `strobe comm`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/program.h"
#include "core/token.h"

namespace strobe::cli {

enum class RankOutput { prefixed, plain };  // each line as "[1] LINE", or the output unchanged

inline constexpr double kFailureGrace = 5, kSignalGrace = 60;  // seconds

struct Job {
  int ranks = 1;
  std::vector<std::string> command;  // a program and its arguments
  RankOutput output = RankOutput::prefixed;
  // Seconds that ranks may take to end by themselves. Default: kFailureGrace after a failure, kSignalGrace after a
  // signal, since ranks may have a lot to save.
  std::optional<double> grace = std::nullopt;
  std::string id = random_hex(8);  // STROBE_JOB in the environment of the ranks; the same after a restart
  int restarts = 0;                // STROBE_RESTARTS in their environment: restarts so far
};

struct JobEnd {
  int code = kFine;       // exit code of the first rank that failed by itself, or 128 + signal
  std::string why;        // "rank 1 died of signal 9 (Killed)", "all 2 ranks: --steps x: ..."; empty if none failed
                          // or the forwarded signal ended all
  bool returned = false;  // true if the code is the rank's own exit code; false if it died of a signal
  int signal = 0;         // signal that this process received and forwarded, and that ended the job; 0: none
  int lost_output = 0;    // errno of the first failed write of a rank's output; 0: none
};

// Runs a job to its end. Forwards signals to the ranks. SIGINT, SIGTERM, SIGHUP, SIGXCPU and SIGALRM end the job;
// SIGUSR1 and SIGUSR2 end it only if a rank dies of them. Throws Error(unsupported) if there is no mpirun,
// Error(runtime) if a folder, socket, process or descriptor cannot be created.
JobEnd run_job(const Job& job);

// Returns the command line of a strobe subcommand: the path of this program, followed by the words.
std::vector<std::string> own_command(const std::vector<std::string>& words);

// Returns true for 128 + signal, the exit code of a rank that ended cleanly because of a signal.
bool is_end_by_signal(int code);

// Internal flag, hidden from --help. It makes a child of mpirun the supervisor of a rank. Its value is the path of the
// launcher's socket.
inline constexpr const char* kRankFlag = "as-rank";
int run_rank(std::string_view socket_path, RankOutput output, const std::vector<std::string>& command);

}  // namespace strobe::cli
