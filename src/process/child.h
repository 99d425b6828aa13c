// A child process that writes lines, of its own accord or as answers to lines that it gets, and dies with its parent.
// Peers are asked through it; a sweep listens to the child that runs a problem, and lends it the child of the peers.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "strobe/error.h"

namespace strobe {

// Memory that parent and child both see: an unnamed file, so that nothing is left behind whatever happens.
class SharedMemory {
 public:
  SharedMemory();
  explicit SharedMemory(int descriptor) : descriptor_(descriptor) {}  // of memory that another process made
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

// A child that was asked gave no answer: it ended, or took too long and was ended.
class ChildError : public Error {
 public:
  enum class Kind { timeout, crashed };
  ChildError(Kind kind, const std::string& what) : Error(ErrorCode::runtime, what), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

// How a child ended.
struct ChildEnd {
  int signal = 0;          // 0: it ended by itself
  int code = 0;            // its exit code then
  std::string last_error;  // last line of its error output

  std::string text() const;  // "died of signal 11 (Segmentation fault): LAST ERROR"
};

struct ChildOptions {
  std::vector<int> descriptors{};                   // that the child finds as 3, 4 and so on
  std::string folder{};                             // its working folder; empty: that of this process
  std::size_t longest_line = std::size_t{1} << 20;  // a child that writes a longer one has failed
};

// A child as its parent lends it to another of its children, which speaks to it in the parent's place.
struct LentChild {
  pid_t pid;
  int input, output, errors;  // descriptors
};

class Child {
 public:
  // Starts the program, in a process group of its own: a terminal's Ctrl-C reaches the parent alone.
  // Throws Error(unsupported) where the program cannot be started.
  Child(const std::vector<std::string>& command, const ChildOptions& options);
  // One that was lent to this process, whose descriptors it takes over. It stays the lender's: only end() ends it.
  Child(std::string name, const LentChild& lent);
  ~Child();  // closes its input and, where that does not end it, kills it
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Throws ChildError: timeout (the child is killed) or crashed (with the signal or the exit code and the
  // last line that it wrote to its error output).
  Json request(const Json& message, double timeout_seconds);

  void close_input();  // for a child that is told nothing: one that reads would wait

  // Waits for the next line that the child writes; one that is there is heard even where no time is left. After `end`,
  // which a line that is too long is too, call end().
  enum class Heard { line, nothing, end };
  Heard hear(std::string& line, double seconds);
  const std::string& unended_line() const { return pending_; }  // after `end`: what it wrote behind the last line

  // Gives the child so many seconds to end by itself, then kills it.
  ChildEnd end(double patience_seconds);

  // For ChildOptions::descriptors of the borrower, in the order of LentChild. Nobody may speak to it meanwhile.
  std::vector<int> descriptors() const { return {input_, output_, errors_}; }

  bool is_running();
  pid_t pid() const { return ended_ ? -1 : pid_; }  // negative once it has ended

 private:
  [[noreturn]] void report_end();
  std::string last_error_line() const;
  std::optional<int> wait_status() const;  // empty while it runs
  int wait_or_kill(double seconds);

  std::string name_;
  bool lent_ = false;  // by the parent of this process, which waits for its end
  pid_t pid_ = -1;
  std::optional<int> ended_;  // with this wait status, which end() has still to tell
  int input_ = -1;            // we write
  int output_ = -1;           // we read
  int errors_ = -1;           // an unnamed file that takes its error output
  std::size_t longest_line_;
  std::string pending_;       // read, but not yet handed out
  std::size_t searched_ = 0;  // so much of it has no end of line
};

// What a command that is told nothing prints, and how it ends. Its own end counts, not that of its output, which a
// helper that it leaves behind may hold open. Throws Error(runtime) where it takes longer, and ends it.
struct Printed {
  std::string text;
  ChildEnd end;
};
Printed run_to_end(const std::vector<std::string>& command, double most_seconds);

}  // namespace strobe
