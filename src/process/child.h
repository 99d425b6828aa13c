// Runs a child process that exchanges lines of text with its parent and is killed when the parent ends.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/descriptor.h"
#include "core/json.h"
#include "strobe/error.h"

namespace strobe {

// Thrown if a request fails. timeout: no answer came in time and the child was killed. crashed: the child ended, or its
// answer was not JSON.
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
  int signal = 0;          // signal that ended it; 0: it exited
  int code = 0;            // exit code if it exited
  std::string last_error;  // last line of its error output

  bool is_fine() const { return signal == 0 && code == 0; }
  std::string text() const;  // "died of signal 11 (Segmentation fault): LAST ERROR"
};

// Reads lines from a descriptor.
class LineReader {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{1} << 20;

  explicit LineReader(Descriptor descriptor, std::size_t longest_line = kLongestLine)
      : descriptor_(std::move(descriptor)), longest_line_(longest_line) {}

  // Waits up to `seconds` for the next line; always returns a line that is already available. Heard::nothing: the time
  // is over. Heard::end: end of file, or a line that is too long.
  enum class Heard { line, nothing, end };
  Heard hear(std::string& line, double seconds);
  const std::string& unended_line() const { return pending_; }  // after `end`: text after the last newline
  int descriptor() const { return descriptor_.get(); }

 private:
  Descriptor descriptor_;
  std::size_t longest_line_;
  std::string pending_;       // bytes that were read but not yet returned
  std::size_t searched_ = 0;  // length of the prefix that has no newline
};

// Sends `message` as one line and returns the answer, one line of JSON. Throws ChildError: timeout if no answer comes
// in time, crashed if the process ends or the answer is not JSON; the text begins with `name`. `end` ends the process
// and returns how it ended.
Json request(int to, LineReader& from, const std::string& name, const Json& message, double timeout_seconds,
             const std::function<ChildEnd(double patience_seconds)>& end);

struct ChildOptions {
  std::vector<int> descriptors{};                       // inherited by the child as descriptors 3, 4 and so on
  std::string folder{};                                 // working folder of the child; empty: that of this process
  std::size_t longest_line = LineReader::kLongestLine;  // a child that writes a longer line has failed
};

class Child {
 public:
  using Heard = LineReader::Heard;

  // Starts the program in its own process group, so that a terminal's Ctrl-C reaches the parent only.
  // Throws Error(unsupported) if the program cannot be started.
  Child(const std::vector<std::string>& command, const ChildOptions& options);
  ~Child();  // closes the child's input; kills the child if it still runs 2 s later
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Sends a request to the child, as request() above does. Throws ChildError: timeout (the child is killed) or crashed
  // (with the signal or the exit code and the last line of the child's stderr).
  Json request(const Json& message, double timeout_seconds);

  void close_input() { input_.reset(); }  // the child then reads the end of its input

  // Reads the next line. After Heard::end, call end().
  Heard hear(std::string& line, double seconds) { return output_.hear(line, seconds); }
  const std::string& unended_line() const { return output_.unended_line(); }
  int input() const { return input_.get(); }
  LineReader& output() { return output_; }

  // Waits up to `patience_seconds` for the child to exit, then kills it. Returns how it ended.
  ChildEnd end(double patience_seconds);

  bool is_running();
  pid_t pid() const { return ended_ ? -1 : pid_; }  // negative once it has ended

 private:
  std::string last_error_line() const;
  int wait_or_kill(double seconds);

  std::string name_;
  pid_t pid_ = -1;
  std::optional<int> ended_;   // wait status, until end() returns it
  Descriptor input_, errors_;  // errors_: an unnamed file that holds the child's stderr
  LineReader output_;
};

// Output of a command, and how it ended.
struct Printed {
  std::string text;
  ChildEnd end;
};

// Runs a command with empty input. Waits until the command exits, but not until its output is closed: a process that
// the command leaves behind may keep it open. After `most_seconds` kills the command and throws Error(runtime).
Printed run_to_end(const std::vector<std::string>& command, double most_seconds);

}  // namespace strobe
