// A library that restricts mpirun's listening sockets to the loopback interface and to this user. job.cpp calls.
#pragma once

#include <string>

namespace strobe::cli {

// The library of loopback_bind.c as a memfd, for LD_PRELOAD of a child process while this object lives.
class LoopbackLibrary {
 public:
  LoopbackLibrary();  // throws Error(runtime)
  ~LoopbackLibrary();
  LoopbackLibrary(const LoopbackLibrary&) = delete;
  LoopbackLibrary& operator=(const LoopbackLibrary&) = delete;

  std::string preload() const;  // value of LD_PRELOAD: this library before those that the user has set

 private:
  int descriptor_;
};

// In a supervisor: removes the library from LD_PRELOAD, if mpirun has not done so.
void remove_loopback_library();

}  // namespace strobe::cli
