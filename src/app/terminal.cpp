// Writes to the standard streams without iostreams, so no buffered text can be lost.
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "app/help.h"
#include "app/terminal.h"
#include "core/fail.h"
#include "core/printable.h"
#include "core/table_width.h"
#include "core/write_all.h"

namespace strobe {
namespace {

constexpr std::size_t kLeastColumns = 40;  // narrower terminals wrap lines themselves

int output_error = 0;  // errno of the first failed write to standard output
std::string progress_shown;
std::string line_prefix = "strobe";  // program name
std::string command_words;
Color color_mode = Color::automatic;
bool quiet_mode = false;

bool shows_color(int descriptor) {
  if (color_mode != Color::automatic) return color_mode == Color::always;
  const char* const refusal = getenv("NO_COLOR");  // https://no-color.org: any value but an empty one
  const char* const terminal = getenv("TERM");
  if ((refusal && *refusal) || (terminal && std::string_view(terminal) == "dumb")) return false;
  return isatty(descriptor) == 1;
}

std::string colored(Style style, std::string_view text) {
  const char* const code = style == Style::good ? "1;32" : style == Style::caution ? "33" : "1;31";
  return "\033[" + std::string(code) + "m" + std::string(text) + "\033[0m";
}

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
  if (quiet_mode) return;
  show_progress("");
  write_all(STDERR_FILENO, text);
}

void set_color(Color color) { color_mode = color; }

void set_quiet(bool quiet) {
  if (quiet) show_progress("");
  quiet_mode = quiet;
}

bool is_quiet() { return quiet_mode; }

std::string styled(Style style, std::string_view text) {
  if (style == Style::plain) return std::string(text);
  return shows_color(STDOUT_FILENO) && shows_color(STDERR_FILENO) ? colored(style, text) : std::string(text);
}

std::string fitting_line(std::string_view text, Line line) {
  const bool is_command = line == Line::command;
  const bool stays = table_width_limit == SIZE_MAX || (is_command && text.find_first_of("'\"") != text.npos);
  if (stays) return std::string(text) + "\n";
  return filled("", text, is_command ? 4 : 2, is_command ? " \\" : "", table_width_limit);
}

std::string labelled_line(Style style, std::string_view label, std::string_view text, Line line) {
  return fitting_line(fmt::format("{} {}", label, text), line).replace(0, label.size(), styled(style, label));
}

std::string note_lines(const std::vector<std::string>& notes) {
  std::string text;
  if (quiet_mode) return text;
  for (const std::string& note : notes) text += labelled_line(Style::caution, "note:", note);
  return text;
}

std::size_t terminal_columns(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void set_program_name(std::string_view name) { line_prefix = name; }

void set_command(std::string command) { command_words = std::move(command); }

const std::string& current_command() { return command_words; }

// Prints a constant line if no memory is left.
void complain(std::string_view text) noexcept {
  try {
    show_progress("");
    const std::string prefix = line_prefix + ":";
    std::string line = prefix + " " + printable(text, std::string_view::npos) + "\n";
    if (const std::size_t columns = terminal_columns(STDERR_FILENO);
        columns >= kLeastColumns && line.size() > columns) {
      line.pop_back();
      line = filled("", line, 2, "", columns);
    }
    if (shows_color(STDERR_FILENO)) line.replace(0, prefix.size(), colored(Style::error, prefix));
    write_all(STDERR_FILENO, line);
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
  return terminal && !quiet_mode;
}

void show_progress(std::string_view text) {
  if (!shows_progress() || text == progress_shown) return;
  progress_shown = text;
  write_all(STDERR_FILENO, "\r\033[K" + progress_shown);
}

}  // namespace strobe
