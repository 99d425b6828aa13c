// One job's mpirun: its folders, preloaded library, command line and environment. job.cpp uses it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/launch/job.h"

namespace strobe::cli {

struct MpirunSettings {
  std::filesystem::path program;        // from find_mpirun()
  std::filesystem::path socket;         // socket of the launcher
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

// A new folder BASE/strobe-launch-XXXXXX of mode 0700. It is locked while this object lives and then removed with its
// contents. A killed process leaves its folder unlocked; the user's next process removes it.
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

// Removes folders of that form in `base` that belong to this user, hold only files of a job, and are not locked.
void remove_dead_folders(const std::filesystem::path& base);

// First of $XDG_RUNTIME_DIR (if it is this user's own and private), $TMPDIR and /tmp that is writable and short enough
// for a socket's name of 107 bytes. Throws Error(runtime).
std::filesystem::path job_folder_base();

// /dev/shm, or `otherwise` if that is not writable.
std::filesystem::path shared_memory_base(const std::filesystem::path& otherwise);

// The library of loopback_bind.c as a memfd, for LD_PRELOAD of a child process while this object lives.
class LoopbackLibrary {
 public:
  LoopbackLibrary();  // throws Error(runtime)
  ~LoopbackLibrary();
  LoopbackLibrary(const LoopbackLibrary&) = delete;
  LoopbackLibrary& operator=(const LoopbackLibrary&) = delete;

  std::string preload() const;  // value of LD_PRELOAD: this library, then the libraries that the user has set

 private:
  int descriptor_;
};

// In a supervisor: removes the library from LD_PRELOAD, if mpirun has not done so.
void remove_loopback_library();

}  // namespace strobe::cli
