// A child process that writes lines, unprompted or as answers to the parent's lines, and ends with its parent.
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

// Thrown if a child does not answer a request because it ended, or because it timed out and was ended.
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

  bool is_fine() const { return signal == 0 && code == 0; }
  std::string text() const;  // "died of signal 11 (Segmentation fault): LAST ERROR"
};

// Reads lines from a descriptor.
class LineReader {
 public:
  static constexpr std::size_t kLongestLine = std::size_t{1} << 20;

  explicit LineReader(Descriptor descriptor, std::size_t longest_line = kLongestLine)
      : descriptor_(std::move(descriptor)), longest_line_(longest_line) {}

  // Waits for the next line; a line that is already written is read even if no time is left. A line that is too long
  // counts as the end.
  enum class Heard { line, nothing, end };
  Heard hear(std::string& line, double seconds);
  const std::string& unended_line() const { return pending_; }  // after `end`: text after the last line
  int descriptor() const { return descriptor_.get(); }

 private:
  Descriptor descriptor_;
  std::size_t longest_line_;
  std::string pending_;       // read, but not yet handed out
  std::size_t searched_ = 0;  // length of the prefix that has no end of line
};

// Sends a line and returns the answer. Throws ChildError with kind timeout if none comes in time, else with kind
// crashed unless the answer is JSON; `name` begins the text. `end` ends the process and returns how it ended.
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
  ~Child();  // closes the child's input; kills the child if that does not end it
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Throws ChildError: timeout (the child is killed) or crashed (with the signal or the exit code and the last line
  // that it wrote to its error output).
  Json request(const Json& message, double timeout_seconds);

  void close_input() { input_.reset(); }  // the child then reads the end of its input

  // After `end` call end().
  Heard hear(std::string& line, double seconds) { return output_.hear(line, seconds); }
  const std::string& unended_line() const { return output_.unended_line(); }
  int input() const { return input_.get(); }
  LineReader& output() { return output_; }

  // Gives the child `patience_seconds` to end by itself, then kills it.
  ChildEnd end(double patience_seconds);

  bool is_running();
  pid_t pid() const { return ended_ ? -1 : pid_; }  // negative once it has ended

 private:
  std::string last_error_line() const;
  int wait_or_kill(double seconds);

  std::string name_;
  pid_t pid_ = -1;
  std::optional<int> ended_;   // wait status, until end() returns it
  Descriptor input_, errors_;  // errors_: an unnamed file that takes its error output
  LineReader output_;
};

// Output and end of a command without input. Waits until the command exits. It does not wait for the end of the output,
// which a process that the command leaves behind may keep open. If the command takes longer, ends it and throws
// Error(runtime).
struct Printed {
  std::string text;
  ChildEnd end;
};
Printed run_to_end(const std::vector<std::string>& command, double most_seconds);

}  // namespace strobe
