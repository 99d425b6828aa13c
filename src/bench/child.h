// A child process that answers one line of JSON for each line it gets, and dies with its parent. Peers use it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "bench/implementation.h"
#include "core/json.h"

namespace strobe::bench {

// Memory that parent and child both see: an unnamed file, so that nothing is left behind whatever happens.
class SharedMemory {
 public:
  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  void resize(std::size_t bytes);  // contents are lost
  char* data() const { return data_; }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
  char* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class Child {
 public:
  // Starts the program; it finds `memory` as descriptor 3, requests on its input, and answers on its output.
  // Throws Error(unsupported) where the program cannot be started.
  Child(const std::vector<std::string>& command, const SharedMemory& memory);
  ~Child();  // closes its input and, where that does not end it, kills it
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Throws ImplementationError: timeout (the child is killed) or crashed (with the signal or the exit code and the
  // last line that it wrote to its error output).
  Json request(const Json& message, double timeout_seconds);

  pid_t pid() const { return pid_; }

 private:
  std::string read_line(double timeout_seconds);
  [[noreturn]] void report_end();
  std::string last_error_line() const;
  int wait_or_kill(double seconds);

  std::string name_;
  pid_t pid_ = -1;
  int input_ = -1;   // we write
  int output_ = -1;  // we read
  int errors_ = -1;  // an unnamed file that takes its error output
  std::string pending_;
};

}  // namespace strobe::bench
