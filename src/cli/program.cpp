// Signals, exceptions, exit codes.
#include "cli/program.h"

#include <signal.h>
#include <unistd.h>

#include <exception>
#include <new>
#include <vector>

#include "core/atomic_file.h"
#include "core/fail.h"

namespace strobe::cli {
namespace {

extern "C" void end_on_signal(int number) {
  remove_temporary_files();
  say_last_words();
  _exit(128 + number);
}

// A mapped file that became shorter, or whose disk failed, while it was read.
extern "C" void end_on_lost_file(int) {
  remove_temporary_files();
  constexpr std::string_view kText = "strobe: a file that is being read became shorter, or its disk failed\n";
  static_cast<void>(!write(STDERR_FILENO, kText.data(), kText.size()));
  _exit(kRuntimeFailure);
}

int exit_code(ErrorCode code) {
  return code == ErrorCode::invalid_argument || code == ErrorCode::unsupported ? kBadInput : kRuntimeFailure;
}

}  // namespace

int run_as_program(std::string_view name, int count, char** words, int (*run)(Arguments)) {
  set_program_name(name);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of write, as a full disk is
  signal(SIGINT, end_on_signal);
  signal(SIGTERM, end_on_signal);
  signal(SIGBUS, end_on_lost_file);
  if (signal(SIGHUP, end_on_signal) == SIG_IGN) signal(SIGHUP, SIG_IGN);  // nohup
  const std::vector<std::string_view> arguments(words + 1, words + count);
  try {
    const int code = run(arguments);
    if (code == kFine) check_output();
    return code;
  } catch (const Error& error) {
    complain(error.what());
    return exit_code(error.code());
  } catch (const std::bad_alloc&) {
    complain("out of memory");
    return kRuntimeFailure;
  } catch (const std::exception& error) {
    complain(error.what());
    return kRuntimeFailure;
  }
}

}  // namespace strobe::cli
