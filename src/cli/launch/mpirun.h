// Prepares the mpirun process of a job: its folders, preloaded library, command line and environment.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/launch/job.h"

namespace strobe::cli {

struct MpirunSettings {
  std::filesystem::path program;        // mpirun, from find_mpirun()
  std::filesystem::path socket;         // Unix socket of the launcher
  std::filesystem::path sessions;       // folder for Open MPI's session files
  std::filesystem::path shared_memory;  // folder for Open MPI's shared-memory files
  std::string launch_token;             // authenticates supervisors to the launcher
  std::string rank_token;               // authenticates ranks to each other
  std::string preload;                  // value of LD_PRELOAD for mpirun
  int master_port = 0;                  // MASTER_PORT, on which the launcher listens; 0: the user has set MASTER_ADDR
};

// Returns the first executable file named mpirun in $PATH. Throws Error(unsupported) if there is none.
std::filesystem::path find_mpirun();

// Throws Error(runtime) if the descriptor limit is too low for a job of `ranks` ranks.
void check_descriptor_limit(int ranks);

std::vector<std::string> mpirun_words(const Job& job, const MpirunSettings& settings);

// Sets the environment variables that supervisors and ranks read. Call it in the forked child.
void set_mpirun_environment(const Job& job, const MpirunSettings& settings);

// Creates a folder BASE/strobe-launch-XXXXXX with mode 0700. The folder is locked while this object exists and then
// removed with its contents. A launcher that is killed leaves its folder unlocked; the user's next launcher removes it.
class LockedFolder {
 public:
  explicit LockedFolder(const std::filesystem::path& base);  // throws Error(runtime)
  ~LockedFolder();
  LockedFolder(const LockedFolder&) = delete;
  LockedFolder& operator=(const LockedFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

// Removes the folders strobe-launch-XXXXXX in `base` that belong to this user, hold only files of a job, and are not
// locked.
void remove_dead_folders(const std::filesystem::path& base);

// Returns the first usable folder of $XDG_RUNTIME_DIR (if it is private to this user), $TMPDIR and /tmp. It must be
// writable, and short enough for a socket path of at most 107 bytes. Throws Error(runtime) if there is none.
std::filesystem::path job_folder_base();

// Returns /dev/shm, or `otherwise` if /dev/shm is not writable.
std::filesystem::path shared_memory_base(const std::filesystem::path& otherwise);

// Holds the compiled loopback_bind.c in a memfd, which child processes can preload while this object exists.
class LoopbackLibrary {
 public:
  LoopbackLibrary();  // throws Error(runtime)
  ~LoopbackLibrary();
  LoopbackLibrary(const LoopbackLibrary&) = delete;
  LoopbackLibrary& operator=(const LoopbackLibrary&) = delete;

  std::string preload() const;  // value of LD_PRELOAD: this library, then the user's own

 private:
  int descriptor_;
};

// Removes the library from this process's LD_PRELOAD unless mpirun has done so. Called by supervisors.
void remove_loopback_library();

}  // namespace strobe::cli
