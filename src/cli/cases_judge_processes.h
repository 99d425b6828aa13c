// The processes of a judged program: all of them end with it, those that left its process group or session too.
#pragma once

#include "cli/process_tree.h"

namespace strobe::cli {

// While it exists, orphaned descendants become children of this process, and every new child is the program's.
class JudgedProcesses {
 public:
  JudgedProcesses() = default;
  ~JudgedProcesses();
  JudgedProcesses(const JudgedProcesses&) = delete;
  JudgedProcesses& operator=(const JudgedProcesses&) = delete;

  // Kills children and waits for them until there are none: the orphans of each become children in turn. Throws
  // Error(runtime) where some still run after ten seconds.
  void end_all() const;

 private:
  ChildSubreaper subreaper_;
};

}  // namespace strobe::cli
