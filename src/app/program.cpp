// Signals, exceptions, exit codes.
#include "app/program.h"

#include <exception>
#include <new>
#include <vector>

#include "app/signals.h"
#include "app/terminal.h"
#include "core/fail.h"

namespace strobe {
namespace {

int exit_code(ErrorCode code) {
  return code == ErrorCode::invalid_argument || code == ErrorCode::unsupported ? kBadInput : kRuntimeFailure;
}

// Reports bad input to the launcher, if there is one.
int end_with(int code, const char* line, bool (*refuse)(std::string_view line)) noexcept {
  try {
    if (code == kBadInput && refuse && refuse(line)) return code;
  } catch (const std::exception&) {  // no memory to reach the launcher
  }
  complain(line);
  return code;
}

}  // namespace

int run_as_program(const char* name, int count, char** words, int (*run)(Arguments),
                   bool (*refuse)(std::string_view line)) {
  set_program_name(name);
  end_cleanly_on_signals(name, say_last_words);
  try {
    const std::vector<std::string_view> arguments(words + 1, words + count);
    const int code = run(arguments);
    if (code == kFine) check_output();
    return code;
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

}  // namespace strobe
