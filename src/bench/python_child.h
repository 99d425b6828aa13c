// The Python process behind all torch-* peers of a run: started when first asked, again after it has failed. A sweep
// keeps one across its problems and relays the questions of the child that runs a problem. STROBE_PYTHON names the
// interpreter (default python3).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/implementation.h"
#include "process/child.h"

namespace strobe::bench {

// Flag of `strobe bench` by which a sweep passes the pid of its Python process. The child finds a socket to the relay
// as descriptor 3 and the shared memory as descriptor 4.
inline constexpr const char* kLentPythonFlag = "lent-python";

const char* torch_peer_script();  // python/torch_peer.py

// Returns why torch-* implementations cannot run, such as "no PyTorch in python3", or "" if the interpreter finds the
// module. Does not import it.
std::string torch_absence();

// Memory that parent and child share: an unnamed file, so that nothing is left behind.
class SharedMemory {
 public:
  SharedMemory();                                                     // throws Error(runtime)
  explicit SharedMemory(Descriptor made) : file_(std::move(made)) {}  // by another process
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  void resize(std::size_t bytes);  // contents are lost
  char* data() const { return data_; }
  int descriptor() const { return file_.get(); }

 private:
  Descriptor file_;
  char* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// A running interpreter: a child of this process, or of the sweep that relays to it.
class PythonProcess {
 public:
  PythonProcess();                     // throws Error(unsupported) if the interpreter cannot be started
  explicit PythonProcess(pid_t lent);  // behind descriptors 3 and 4

  Json request(const Json& message, double timeout_seconds);  // throws ChildError
  void end();                                                 // kills it
  pid_t pid() const { return child_ ? child_->pid() : lent_; }
  SharedMemory& memory() { return memory_; }
  Child& child() { return *child_; }  // of this process

 private:
  SharedMemory memory_;
  std::optional<Child> child_;
  std::optional<LineReader> relay_;
  pid_t lent_ = -1;
};

// Passes the questions of one child of a sweep on to the sweep's Python process, in a thread. Lines of JSON go both
// ways over a socketpair. The line "end" kills Python. When Python ends, the answer is {"ended": {signal, code,
// last_error}}.
class PythonRelay {
 public:
  explicit PythonRelay(PythonProcess& python);  // throws Error(runtime)
  ~PythonRelay() { finish(); }
  PythonRelay(const PythonRelay&) = delete;
  PythonRelay& operator=(const PythonRelay&) = delete;

  std::vector<int> descriptors() const { return {theirs_.get(), python_.memory().descriptor()}; }  // for ChildOptions
  void start();   // after the child was started
  bool finish();  // after the child has ended; true if every question has its answer and Python still runs

 private:
  void run();
  bool pass_on(const std::string& question);

  PythonProcess& python_;
  Descriptor theirs_;
  std::optional<LineReader> questions_;
  std::thread thread_;
  bool idle_ = true;
};

class PythonChild {
 public:
  // timeout: seconds without an answer. lent: the pid of a sweep's Python, if any. Throws Error(invalid_argument) if
  // descriptor 3 is not a socket then.
  explicit PythonChild(double timeout, std::optional<pid_t> lent = {});

  // Sees to it that one runs. Throws Error(unsupported) where there is no interpreter or no PyTorch in it.
  void start(int threads);

  // Throws Error(unsupported) with the reason where Python refuses, ImplementationError where it fails. It lives on
  // after an exception that it could tell, unless it says itself that it cannot be used any more; else it is ended.
  Json ask(const Json& message);

  // Counts the processes that were started or lent so far: what one was told the next does not know. 0: none runs.
  int generation() const { return process_ ? generation_ : 0; }

  SharedMemory& memory() const { return process_->memory(); }  // of the one that runs
  pid_t pid() const { return process_ ? process_->pid() : -1; }
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
