// Private folders of one job, for the launcher's socket, Open MPI's session files and shared memory. job.cpp
// calls.
#pragma once

#include <filesystem>

namespace strobe::cli {

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

}  // namespace strobe::cli
