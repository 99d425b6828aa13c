// Ranks as local processes: started through mpirun, watched, ended together. `strobe launch` and `strobe comm` call.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.h"

namespace strobe::cli {

enum class RankOutput { prefixed, plain };  // "[1] line", or the launcher's own streams as they are

struct Job {
  int ranks = 1;
  std::vector<std::string> command;  // the whole: a program and its words
  RankOutput output = RankOutput::prefixed;
  double grace = 5;  // seconds that the others have to end by themselves once a rank has failed
  int restarts = 0;  // so far; the ranks find it in STROBE_RESTARTS
};

struct JobEnd {
  int code = kFine;     // of the first rank that failed by itself; 128 and the number of a signal
  std::string why;      // "rank 1 died of signal 9 (Killed)"; empty where none failed
  int signal = 0;       // that this process got and passed on
  int lost_output = 0;  // errno of the first line of a rank's that could not be written; 0: none
};

// Signals that would end this process reach the ranks instead. Throws Error(unsupported) where there is no mpirun,
// Error(runtime) where it starts no ranks.
JobEnd run_job(const Job& job);

// What a subcommand of ours is as a command: this program and the words.
std::vector<std::string> own_command(const std::vector<std::string>& words);

// The flag by which mpirun's children know that they are to become ranks: the name of the launcher's socket.
inline constexpr const char* kRankFlag = "as-rank";
int run_rank(std::string_view socket_name, RankOutput output, const std::vector<std::string>& command);

}  // namespace strobe::cli
