// Ends all processes of a judged program, including those that left its process group or session.
#pragma once

#include "process/tree.h"

namespace strobe::cli {

// While it exists, this process is a child subreaper: orphaned descendants of the program become its children.
class JudgedProcesses {
 public:
  JudgedProcesses() = default;
  ~JudgedProcesses();
  JudgedProcesses(const JudgedProcesses&) = delete;
  JudgedProcesses& operator=(const JudgedProcesses&) = delete;

  // Kills and reaps children until none is left: their orphans become children in turn. Throws Error(runtime) if some
  // still run after ten seconds.
  void end_all() const;

 private:
  ChildSubreaper subreaper_;
};

}  // namespace strobe::cli
