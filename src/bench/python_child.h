// The Python process behind all torch-* peers of a run: started when first asked, started anew after it has failed. A
// sweep keeps one across its problems and lends it to the child that runs a problem.
// STROBE_PYTHON names the interpreter (default python3).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/implementation.h"
#include "process/child.h"

namespace strobe::bench {

// Of `strobe bench`: how a sweep tells the child that runs a problem which process it lends.
inline constexpr const char* kLentPythonFlag = "lent-python";

const char* torch_peer_script();  // python/torch_peer.py

// Returns why torch-* implementations cannot run, such as "no PyTorch in python3", or "" if the interpreter finds the
// module. Does not import it.
std::string torch_absence();

// A running interpreter, and the memory that it shares with whoever asks it.
struct PythonProcess {
  PythonProcess();                       // Throws Error(unsupported) where the interpreter cannot be started.
  explicit PythonProcess(pid_t lent);    // by the parent of this process, behind the descriptors below
  std::vector<int> descriptors() const;  // for ChildOptions of the borrower

  SharedMemory memory;
  Child child;
};

class PythonChild {
 public:
  // `timeout` is in seconds without an answer; `lent` the process that was lent to this one, if any. Throws
  // Error(invalid_argument) where that is no child of this process's parent: it would be killed when it fails.
  explicit PythonChild(double timeout, std::optional<pid_t> lent = {});

  // Sees to it that one runs. Throws Error(unsupported) where there is no interpreter or no PyTorch in it.
  void start(int threads);

  // Throws Error(unsupported) with the reason where Python refuses, ImplementationError where it fails. It lives on
  // after an exception that it could tell, unless it says itself that it cannot be used any more; else it is ended.
  Json ask(const Json& message);

  // Counts the processes that were started or lent so far: what one was told the next does not know. 0: none runs.
  int generation() const { return process_ ? generation_ : 0; }

  SharedMemory& memory() const { return process_->memory; }  // of the one that runs
  pid_t pid() const { return process_ ? process_->child.pid() : -1; }
  const std::string& versions() const { return versions_; }  // "torch 2.4.1, python 3.11.2"

 private:
  void give_up();

  double timeout_;
  std::optional<pid_t> lent_;  // until it is taken
  std::unique_ptr<PythonProcess> process_;
  int generation_ = 0;
  std::string versions_;
  std::string refusal_;  // of the last hello: PyTorch does not appear meanwhile
};

}  // namespace strobe::bench
