// mpirun of one job: where it is, its command line and its environment. launch_job.cpp calls.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/launch_job.h"

namespace strobe::cli {

struct MpirunSettings {
  std::filesystem::path program;        // from find_mpirun()
  std::filesystem::path socket;         // the launcher's
  std::filesystem::path sessions;       // folder for Open MPI's session files
  std::filesystem::path shared_memory;  // folder for its shared-memory files
  std::string launch_token;             // by which supervisors prove themselves to the launcher
  std::string rank_token;               // by which ranks prove themselves to each other
  std::string preload;                  // LD_PRELOAD of mpirun
  int master_port = 0;                  // port of the launcher's listening socket; 0: MASTER_ADDR is the user's
};

// First executable file named mpirun in $PATH. Throws Error(unsupported) where there is none.
std::filesystem::path find_mpirun();

// Throws Error(runtime) where this process may not open the descriptors that a job of so many ranks needs.
void check_descriptor_limit(int ranks);

std::vector<std::string> mpirun_words(const Job& job, const MpirunSettings& settings);

// In the forked child: the variables that supervisors and ranks find.
void set_mpirun_environment(const Job& job, const MpirunSettings& settings);

}  // namespace strobe::cli
