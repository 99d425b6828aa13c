// Handlers: what they call is safe in a signal.
#include "core/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "core/atomic_file.h"
#include "core/clock.h"

namespace strobe {
namespace {

constexpr int kRuntimeFailure = 3;

const char* program_name = "";
std::atomic<int> first_signal{0};
std::atomic<double> first_at{0};  // by now_seconds()
void (*say_at_the_end)() noexcept = nullptr;
std::atomic_flag is_ending;

void say(const char* text) { static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text))); }

extern "C" void end_on_signal(int number) {
  if (is_ending.test_and_set()) return;  // a second signal, for another thread or in the midst of this
  remove_temporary_files();
  if (say_at_the_end) say_at_the_end();
  _exit(128 + number);
}

// Who tells a process and its group tells it twice, as timeout(1) does: within a second that is one request.
extern "C" void remember_or_end(int number) {
  constexpr double kOneRequest = 1;  // seconds
  int none = 0;
  if (first_signal.compare_exchange_strong(none, number)) {
    first_at = now_seconds();
  } else if (first_at != 0 && now_seconds() - first_at > kOneRequest) {
    end_on_signal(number);
  }
}

extern "C" void end_on_lost_file(int) {
  remove_temporary_files();
  say(program_name);
  say(": a file that is being read became shorter, or its disk failed\n");
  _exit(kRuntimeFailure);
}

}  // namespace

void end_cleanly_on_signals(const char* program, void (*last_words)() noexcept) {
  program_name = program;
  say_at_the_end = last_words;
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGBUS, end_on_lost_file);
  signal(SIGINT, end_on_signal);
  signal(SIGTERM, end_on_signal);
  if (signal(SIGHUP, end_on_signal) == SIG_IGN) signal(SIGHUP, SIG_IGN);  // nohup
}

void remember_first_signal() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (signal(number, remember_or_end) == SIG_IGN) signal(number, SIG_IGN);
  }
}

int remembered_signal() { return first_signal; }

}  // namespace strobe
