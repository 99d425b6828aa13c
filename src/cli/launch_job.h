// Ranks as local processes: started through mpirun, watched, ended together. `strobe launch` and `strobe comm` call.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/launch_socket.h"

namespace strobe::cli {

enum class RankOutput { prefixed, plain };  // "[1] line", or the launcher's own streams as they are

inline constexpr double kFailureGrace = 5, kSignalGrace = 60;  // seconds

struct Job {
  int ranks = 1;
  std::vector<std::string> command;  // the whole: a program and its words
  RankOutput output = RankOutput::prefixed;
  // Seconds that ranks have to end by themselves; not said: kFailureGrace once one has failed, kSignalGrace once all
  // or one were told to end by a signal, since they may have a lot to save.
  std::optional<double> grace = std::nullopt;
  std::string id = random_word();  // the same in all starts; the ranks find it in STROBE_JOB
  int restarts = 0;                // so far; the ranks find it in STROBE_RESTARTS
};

struct JobEnd {
  int code = kFine;       // of the first rank that failed by itself; 128 and the number of a signal
  std::string why;        // "rank 1 died of signal 9 (Killed)", "all 2 ranks: --steps x: ..."; empty where none failed,
                          // or all ended by the signal that was passed on
  bool returned = false;  // the code is that rank's own exit code; it did not die of a signal
  int signal = 0;         // that this process got and passed on
  int lost_output = 0;    // errno of the first line of a rank's that could not be written; 0: none
};

// Signals that would end this process reach the ranks instead. Throws Error(unsupported) where there is no mpirun,
// Error(runtime) where it starts no ranks.
JobEnd run_job(const Job& job);

// What a subcommand of ours is as a command: this program and the words.
std::vector<std::string> own_command(const std::vector<std::string>& words);

// Whether an exit code says that a rank ended because a signal told it to, in good order.
bool is_end_by_signal(int code);

// The flag by which mpirun's children know that they are to become ranks: the name of the launcher's socket.
inline constexpr const char* kRankFlag = "as-rank";
int run_rank(std::string_view socket_name, RankOutput output, const std::vector<std::string>& command);

}  // namespace strobe::cli
