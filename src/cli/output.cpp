// The program's own way to the terminal: no iostream state, no SIGPIPE.
#include <unistd.h>

#include <cerrno>

#include "cli/commands.h"

namespace strobe::cli {
namespace {

// False once the reader has gone.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool progress_shown = false;

}  // namespace

void print(std::string_view text) {
  static bool open = true;
  if (open) open = write_all(STDOUT_FILENO, text);
}

void print_aside(std::string_view text) {
  show_progress("");
  write_all(STDERR_FILENO, text);
}

void complain(std::string_view text) {
  show_progress("");
  write_all(STDERR_FILENO, "strobe: " + std::string(text) + "\n");
}

void show_progress(std::string_view text) {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  if (!terminal || (text.empty() && !progress_shown)) return;
  progress_shown = !text.empty();
  write_all(STDERR_FILENO, "\r\033[K" + std::string(text));
}

}  // namespace strobe::cli
