// Runs a program's command and converts exceptions to exit codes.
#include "app/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <new>
#include <vector>

#include "app/help.h"
#include "app/options.h"
#include "app/signals.h"
#include "app/terminal.h"
#include "core/fail.h"
#include "core/printable.h"
#include "core/table_width.h"

namespace strobe {
namespace {

int exit_code(ErrorCode code) {
  return code == ErrorCode::invalid_argument || code == ErrorCode::unsupported ? kBadInput : kRuntimeFailure;
}

// Passes an error about bad input to `refuse`, if there is one; prints it unless `refuse` has reported it.
int end_with(int code, const char* line, bool (*refuse)(std::string_view line)) noexcept {
  try {
    if (code == kBadInput && refuse && refuse(line)) return code;
  } catch (const std::exception&) {  // out of memory while reporting
  }
  complain(line);
  return code;
}

}  // namespace

int run_as_program(const char* name, int count, char** words, int (*run)(Arguments),
                   bool (*refuse)(std::string_view line)) {
  secure_standard_descriptors();
  set_program_name(name);
  end_cleanly_on_signals(name, write_signal_message);
  if (const std::size_t columns = terminal_columns(STDOUT_FILENO); columns > 0) limit_table_width(columns);
  try {
    const std::vector<std::string_view> arguments(words + 1, words + count);
    const int code = run(Arguments(arguments).subspan(apply_common_flags(arguments)));
    if (code == kFine) check_output();
    return code;
  } catch (const FlagsAccepted&) {
    return kFine;
  } catch (const Error& error) {
    return end_with(exit_code(error.code()), error.what(), refuse);
  } catch (const std::bad_alloc&) {
    complain("out of memory");
    return kRuntimeFailure;
  } catch (const std::exception& error) {
    complain(error.what());
    return kRuntimeFailure;
  }
}

bool only_checks_flags() {
  const char* const variable = getenv("STROBE_CHECK_FLAGS");
  return variable && std::string_view(variable) == "1";
}

std::string lines_of(std::span<const Command> commands) {
  std::size_t width = 0;
  for (const Command& command : commands) width = std::max(width, std::string_view(command.name).size() + 4);
  std::string text;
  for (const Command& command : commands) text += help_entry(command.name, command.help, width);
  return text;
}

const Command& find_command(std::span<const Command> commands, std::string_view before, std::string_view name) {
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (name == command.name) return command;
    names.emplace_back(command.name);
  }
  const std::vector<std::string> near = nearest(name, names);
  fail(ErrorCode::invalid_argument, "\"{}{}\": unknown command; {}: {}", before, printable(name),
       near.size() < names.size() ? "nearest" : "valid", fmt::join(near, ", "));
}

int run_command(std::span<const Command> commands, std::string_view before, Arguments arguments) {
  const Command& command = find_command(commands, before, arguments[0]);
  set_command(fmt::format("strobe {}{}", before, command.name));
  return command.run(arguments.subspan(1));
}

bool asks_for_help(std::string_view word) { return word == "--help" || word == "-h"; }

std::string quoted(std::string_view word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("-_=.,:/+@%").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return std::string(word);
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string quoted_command(std::string_view name, std::span<const std::string_view> words) {
  std::string command = "strobe " + std::string(name);
  for (const std::string_view word : words) command += " " + quoted(word);
  return command;
}

void secure_standard_descriptors() noexcept {
  for (;;) {
    int opened = open("/dev/null", O_RDONLY);
    if (opened < 0) opened = open("/", O_RDONLY | O_DIRECTORY);  // no /dev in a bare chroot
    if (opened < 0) return;
    if (opened <= STDERR_FILENO) continue;
    close(opened);
    return;
  }
}

}  // namespace strobe
