// The Python process that the PyTorch peers (torch-* and fa3) of a run share. PythonChild starts it on first use, and
// restarts it after a failure. A sweep starts one process for all its problems and relays the requests of each
// problem's child process to it. STROBE_PYTHON sets the interpreter (default python3).
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

// Internal flag of `strobe bench`, hidden from --help. Its value is the pid of the sweep's Python process. The child
// inherits a socket to the relay as descriptor 3 and the shared memory as descriptor 4.
inline constexpr const char* kLentPythonFlag = "lent-python";

const char* torch_peer_script();  // text of python/torch_peer.py

// Returns why the PyTorch peers cannot run, such as "no PyTorch in python3"; "" if the interpreter finds the
// module torch. Does not import it, which would be slow.
std::string torch_absence();

// Memory shared by parent and child: an unnamed memfd, freed when both have ended.
class SharedMemory {
 public:
  SharedMemory();                                                     // throws Error(runtime)
  explicit SharedMemory(Descriptor made) : file_(std::move(made)) {}  // takes ownership of an inherited descriptor
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

// A running Python interpreter: a child of this process, or a child of the sweep, reached through its relay.
class PythonProcess {
 public:
  PythonProcess();                     // throws Error(unsupported) if the interpreter cannot be started
  explicit PythonProcess(pid_t lent);  // uses descriptors 3 and 4

  Json request(const Json& message, double timeout_seconds);  // throws ChildError
  void end();                                                 // kills the interpreter
  pid_t pid() const { return child_ ? child_->pid() : lent_; }
  SharedMemory& memory() { return memory_; }
  Child& child() { return *child_; }  // requires an interpreter that this process started

 private:
  SharedMemory memory_;
  std::optional<Child> child_;
  std::optional<LineReader> relay_;
  pid_t lent_ = -1;
};

// A thread of a sweep that relays the requests of one child to the sweep's Python process. Requests and answers are
// lines of JSON over a socketpair. The request "end" kills Python. If Python ends, the relay answers {"ended": {signal,
// code, last_error}}.
class PythonRelay {
 public:
  explicit PythonRelay(PythonProcess& python);  // throws Error(runtime)
  ~PythonRelay() { finish(); }
  PythonRelay(const PythonRelay&) = delete;
  PythonRelay& operator=(const PythonRelay&) = delete;

  std::vector<int> descriptors() const { return {theirs_.get(), python_.memory().descriptor()}; }  // for ChildOptions
  void start();   // call after starting the child
  bool finish();  // call after the child ended; true if no request is unanswered and Python still runs

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
  // timeout: seconds to wait for an answer. lent: pid of the sweep's Python process, if any; Error(invalid_argument) is
  // thrown if descriptor 3 is then not a socket.
  explicit PythonChild(double timeout, std::optional<pid_t> lent = {});

  // Starts Python unless it is running. Throws Error(unsupported) if the interpreter or PyTorch is missing.
  void start(int threads);

  // Sends a request and returns the answer. Throws Error(unsupported) with the reason if Python does not support the
  // request, and ImplementationError if the request fails. Python keeps running after an exception that it reports,
  // unless the answer has "unusable"; after any other failure it is killed.
  Json ask(const Json& message);

  // Sequence number of the running process, from 1; 0 if none runs. If it changed, the state of earlier requests is
  // lost.
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
  std::string refusal_;  // error of the last hello; kept, since PyTorch is not installed during a run
};

}  // namespace strobe::bench
