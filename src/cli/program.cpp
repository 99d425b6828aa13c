// Signals, exceptions, exit codes.
#include "cli/program.h"

#include <exception>
#include <new>
#include <vector>

#include "core/fail.h"
#include "core/signals.h"

namespace strobe::cli {
namespace {

int exit_code(ErrorCode code) {
  return code == ErrorCode::invalid_argument || code == ErrorCode::unsupported ? kBadInput : kRuntimeFailure;
}

}  // namespace

int run_as_program(const char* name, int count, char** words, int (*run)(Arguments),
                   bool (*refuse)(std::string_view line)) {
  set_program_name(name);
  end_cleanly_on_signals(name, say_last_words);
  const std::vector<std::string_view> arguments(words + 1, words + count);
  try {
    const int code = run(arguments);
    if (code == kFine) check_output();
    return code;
  } catch (const Error& error) {
    const int code = exit_code(error.code());
    if (code != kBadInput || !refuse || !refuse(error.what())) complain(error.what());
    return code;
  } catch (const std::bad_alloc&) {
    complain("out of memory");
    return kRuntimeFailure;
  } catch (const std::exception& error) {
    complain(error.what());
    return kRuntimeFailure;
  }
}

}  // namespace strobe::cli
