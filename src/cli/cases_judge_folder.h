// The folder that a judged program gets: a copy of the problem and a place for its output, and nothing else.
#pragma once

#include <string>

namespace strobe::cli {

class JudgeFolder {
 public:
  // Makes a folder of mode 0700 below TMPDIR, or /tmp, with a read-only copy of the problem. Neither path leads to the
  // case's own folder. Stops copying when a signal is remembered (core/signals.h). Throws Error(runtime) where there is
  // no room, with the system's reason.
  explicit JudgeFolder(const std::string& problem);
  ~JudgeFolder();  // removes it with all that the program wrote
  JudgeFolder(const JudgeFolder&) = delete;
  JudgeFolder& operator=(const JudgeFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string input() const { return path_ + "/input"; }
  std::string output() const { return path_ + "/output"; }

  // The output, opened for reading; the caller closes it. -1 with a reason where the program wrote no plain file of one
  // name: a link could lead to an answer.
  int open_output(std::string& reason) const;

 private:
  void copy(const std::string& problem) const;
  void remove() const;

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace strobe::cli
