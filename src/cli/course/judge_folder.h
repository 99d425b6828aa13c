// Creates the working folder of a judged program, and detects changes to the case files.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace strobe::cli {

class JudgeFolder {
 public:
  // Creates a folder of mode 0700 below TMPDIR, or /tmp, with a read-only copy of the problem. Neither path reveals the
  // folder of the cases. Stops copying when a signal is stored (app/signals.h).
  // Throws Error(runtime) with the text of errno if the folder or the copy cannot be created.
  explicit JudgeFolder(const std::string& problem);
  ~JudgeFolder();  // removes the folder with everything that the program wrote
  JudgeFolder(const JudgeFolder&) = delete;
  JudgeFolder& operator=(const JudgeFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string input() const { return path_ + "/input"; }
  std::string output() const { return path_ + "/output"; }

  // Opens the output for reading; the caller closes it. Returns -1 and sets `reason` unless the output is a regular
  // file with one hard link: a link could lead to an answer.
  int open_output(std::string& reason) const;

 private:
  void copy(const std::string& problem) const;
  void remove() const;

  std::string path_;
  int descriptor_ = -1;
};

// Detects whether files were written, replaced, linked or removed. Compares inode, size, and times of modification and
// status change.
class CaseFilesWatch {
 public:
  explicit CaseFilesWatch(const std::vector<std::string>& paths);

  // Returns the first file that changed since the last call, or since construction; empty if none did.
  std::string newly_changed();
  // Returns true if the file has not changed since construction.
  bool is_original(const std::string& path) const;

 private:
  struct Stamp {
    dev_t device = 0;
    ino_t inode = 0;
    off_t bytes = 0;
    std::int64_t modified = 0, changed = 0;  // nanoseconds

    bool operator==(const Stamp&) const = default;
  };
  struct Watched {
    std::string path;
    Stamp first, latest;
  };
  static Stamp stamp_of(const std::string& path);

  std::vector<Watched> files_;
};

}  // namespace strobe::cli
