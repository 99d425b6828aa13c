// The working folder of a judged program. It holds a copy of the problem and receives the output.
#pragma once

#include <string>

namespace strobe::cli {

class JudgeFolder {
 public:
  // Makes a folder of mode 0700 below TMPDIR, or /tmp, with a read-only copy of the problem. Neither path leads to the
  // case's own folder. Stops copying when a signal is remembered (app/signals.h). Throws Error(runtime) with the
  // system's reason if the folder or the copy cannot be made.
  explicit JudgeFolder(const std::string& problem);
  ~JudgeFolder();  // removes it with everything that the program wrote
  JudgeFolder(const JudgeFolder&) = delete;
  JudgeFolder& operator=(const JudgeFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string input() const { return path_ + "/input"; }
  std::string output() const { return path_ + "/output"; }

  // Opens the output for reading; the caller closes it. Returns -1 and a reason unless the output is a regular file
  // with one hard link: a link could lead to an answer.
  int open_output(std::string& reason) const;

 private:
  void copy(const std::string& problem) const;
  void remove() const;

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace strobe::cli
