// The path, command line and environment of one job's mpirun. job.cpp calls.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/launch/job.h"

namespace strobe::cli {

struct MpirunSettings {
  std::filesystem::path program;        // from find_mpirun()
  std::filesystem::path socket;         // the launcher's
  std::filesystem::path sessions;       // folder for Open MPI's session files
  std::filesystem::path shared_memory;  // folder for its shared-memory files
  std::string launch_token;             // authenticates supervisors to the launcher
  std::string rank_token;               // authenticates ranks to each other
  std::string preload;                  // LD_PRELOAD of mpirun
  int master_port = 0;                  // port of the launcher's listening socket; 0: MASTER_ADDR is the user's
};

// First executable file named mpirun in $PATH. Throws Error(unsupported) if there is none.
std::filesystem::path find_mpirun();

// Throws Error(runtime) if the descriptor limit is too low for a job of `ranks` ranks.
void check_descriptor_limit(int ranks);

std::vector<std::string> mpirun_words(const Job& job, const MpirunSettings& settings);

// Sets the variables of supervisors and ranks. Called in the forked child.
void set_mpirun_environment(const Job& job, const MpirunSettings& settings);

}  // namespace strobe::cli
