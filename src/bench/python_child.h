// The Python process of all torch-* peers of a run. The first request starts it; the next request after a failure
// restarts it. A sweep has one for all its problems and relays requests from the child process of each problem.
// STROBE_PYTHON sets the interpreter (default python3).
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

// Internal flag of `strobe bench`, hidden from --help. A sweep passes the pid of its Python process. The child inherits
// a socket to the relay as descriptor 3 and the shared memory as descriptor 4.
inline constexpr const char* kLentPythonFlag = "lent-python";

const char* torch_peer_script();  // python/torch_peer.py

// Returns why torch-* implementations cannot run, such as "no PyTorch in python3"; "" if the interpreter finds the
// module, which is not imported.
std::string torch_absence();

// Memory that parent and child share: an unnamed file, which disappears with them.
class SharedMemory {
 public:
  SharedMemory();                                                     // throws Error(runtime)
  explicit SharedMemory(Descriptor made) : file_(std::move(made)) {}  // created by another process
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
  explicit PythonProcess(pid_t lent);  // uses descriptors 3 and 4

  Json request(const Json& message, double timeout_seconds);  // throws ChildError
  void end();                                                 // kills it
  pid_t pid() const { return child_ ? child_->pid() : lent_; }
  SharedMemory& memory() { return memory_; }
  Child& child() { return *child_; }  // child of this process

 private:
  SharedMemory memory_;
  std::optional<Child> child_;
  std::optional<LineReader> relay_;
  pid_t lent_ = -1;
};

// Relays the requests of one child of a sweep to the sweep's Python process, in a thread. Both directions are lines of
// JSON over a socketpair. The line "end" kills Python. If Python ends, the relay answers {"ended": {signal, code,
// last_error}}.
class PythonRelay {
 public:
  explicit PythonRelay(PythonProcess& python);  // throws Error(runtime)
  ~PythonRelay() { finish(); }
  PythonRelay(const PythonRelay&) = delete;
  PythonRelay& operator=(const PythonRelay&) = delete;

  std::vector<int> descriptors() const { return {theirs_.get(), python_.memory().descriptor()}; }  // for ChildOptions
  void start();   // call after starting the child
  bool finish();  // call after the child ended; true if all questions are answered and Python still runs

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
  // timeout: seconds without an answer. lent: the pid of a sweep's Python, if any; throws Error(invalid_argument) if
  // descriptor 3 is not a socket then.
  explicit PythonChild(double timeout, std::optional<pid_t> lent = {});

  // Starts Python unless it runs. Throws Error(unsupported) if the interpreter or PyTorch is missing.
  void start(int threads);

  // Sends a request and returns the answer. Throws Error(unsupported) with the reason if Python rejects it,
  // ImplementationError if it fails. Python survives an exception that it reports, unless it marks itself unusable;
  // otherwise it is ended.
  Json ask(const Json& message);

  // Number of processes started or lent so far; 0 if none runs. A new process has no state of earlier ones.
  int generation() const { return process_ ? generation_ : 0; }

  SharedMemory& memory() const { return process_->memory(); }  // shared with the running process
  pid_t pid() const { return process_ ? process_->pid() : -1; }
  const std::string& versions() const { return versions_; }  // "torch 2.4.1, python 3.11.2"

 private:
  void give_up();

  double timeout_;
  std::optional<pid_t> lent_;  // set until it is used
  std::unique_ptr<PythonProcess> process_;
  int generation_ = 0;
  std::string versions_;
  std::string refusal_;  // from the last hello; cached, since PyTorch is not installed during a run
};

}  // namespace strobe::bench
