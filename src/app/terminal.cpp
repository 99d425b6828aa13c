// Writes to the standard streams without iostreams, so no buffered text can be lost.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "app/terminal.h"
#include "core/fail.h"
#include "core/printable.h"
#include "core/write_all.h"

namespace strobe {
namespace {

int output_error = 0;  // errno of the first failed write to standard output
std::string progress_shown;
std::string line_prefix = "strobe";  // program name
std::string command_words;

// Two buffers are used alternately, because the signal handler must not allocate, wait or read a half-written line.
struct SignalMessage {
  char text[4608];  // room for a path
  std::size_t size = 0;
};
SignalMessage messages[2];
std::atomic<int> message_index{0};

}  // namespace

void print(std::string_view text) {
  if (output_error == 0) output_error = write_all(STDOUT_FILENO, text);
}

void note_lost_output(int error) {
  if (output_error == 0) output_error = error;
}

void check_output() {
  if (output_error == 0 || output_error == EPIPE) return;
  fail(ErrorCode::runtime, "standard output: cannot be written: {}", std::strerror(output_error));
}

void print_aside(std::string_view text) {
  show_progress("");
  write_all(STDERR_FILENO, text);
}

std::string note_lines(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += "note: " + note + "\n";
  return text;
}

void set_program_name(std::string_view name) { line_prefix = name; }

void set_command(std::string command) { command_words = std::move(command); }

const std::string& current_command() { return command_words; }

// Prints a constant line if no memory is left.
void complain(std::string_view text) noexcept {
  try {
    show_progress("");
    write_all(STDERR_FILENO, line_prefix + ": " + printable(text, std::string_view::npos) + "\n");
  } catch (const std::exception&) {
    write_all(STDERR_FILENO, "strobe: out of memory\n");
  }
}

void set_signal_message(std::string_view text) {
  const int next = 1 - message_index;
  std::string line = line_prefix + ": " + printable(text, std::string_view::npos) + "\n";
  if (shows_progress()) line = "\r\033[K" + line;
  SignalMessage& words = messages[next];
  words.size = std::min(line.size(), sizeof(words.text));
  std::memcpy(words.text, line.data(), words.size);
  message_index = next;
}

void write_signal_message() noexcept {
  const SignalMessage& words = messages[message_index];
  write_all(STDERR_FILENO, {words.text, words.size});
}

bool shows_progress() {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  return terminal;
}

void show_progress(std::string_view text) {
  if (!shows_progress() || text == progress_shown) return;
  progress_shown = text;
  write_all(STDERR_FILENO, "\r\033[K" + progress_shown);
}

}  // namespace strobe
