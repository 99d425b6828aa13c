// Signal handling. Every function that a handler calls is async-signal-safe.
#include "app/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <initializer_list>

#include "app/program.h"
#include "core/atomic_file.h"
#include "core/clock.h"
#include "core/fail.h"

namespace strobe {
namespace {

constexpr int kRuntimeFailure = 3;

// Signals that request the program to end come from a person or a supervisor. Warnings come from batch systems (Slurm's
// --signal) and from the kernel (RLIMIT_CPU, once per second).
constexpr int kRequests[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int kWarnings[] = {SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM};

const char* program_name = "";
std::atomic<int> first_signal{0};
std::atomic<double> first_request_at{0};  // by now_seconds(); 0: none yet
void (*print_signal_message)() noexcept = nullptr;
std::atomic_flag is_ending;

void print_error(const char* text) { static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text))); }

extern "C" void end_on_signal(int number) {
  if (is_ending.test_and_set()) return;  // another thread is already ending the program
  remove_temporary_files();
  if (print_signal_message) print_signal_message();
  _exit(128 + number);
}

extern "C" void remember_warning(int number) {
  int none = 0;
  first_signal.compare_exchange_strong(none, number);
}

// timeout(1) signals a process and then its group, so two signals within a second count as one request.
extern "C" void remember_or_end(int number) {
  constexpr double kOneRequest = 1;  // seconds
  remember_warning(number);
  double none = 0;
  const double now = now_seconds();
  if (!first_request_at.compare_exchange_strong(none, now) && now - none > kOneRequest) end_on_signal(number);
}

extern "C" void end_on_lost_file(int) {
  remove_temporary_files();
  print_error(program_name);
  print_error(": a file was truncated while it was read, or its disk failed\n");
  _exit(kRuntimeFailure);
}

void handle(int number, void (*handler)(int)) {
  if (is_handled(number)) signal(number, handler);
}

}  // namespace

bool is_handled(int number) {
  if (number == SIGINT || number == SIGTERM) return true;
  struct sigaction current {};
  return sigaction(number, nullptr, &current) != 0 || current.sa_handler != SIG_IGN;
}

void end_cleanly_on_signals(const char* program, void (*signal_message)() noexcept) {
  program_name = program;
  print_signal_message = signal_message;
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGBUS, end_on_lost_file);
  for (const int number : kRequests) handle(number, end_on_signal);
  for (const int number : kWarnings) handle(number, end_on_signal);
}

void remember_first_signal() {
  for (const int number : kRequests) handle(number, remember_or_end);
  for (const int number : kWarnings) handle(number, remember_warning);
}

int remembered_signal() { return first_signal; }

SignalQueue::SignalQueue() {
  sigemptyset(&set_);
  // signalfd would also queue an ignored signal that is blocked, so ignored signals are left out.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM}) {
    if (is_handled(signal)) sigaddset(&set_, signal);
  }
  sigprocmask(SIG_BLOCK, &set_, &before_);
  descriptor_ = signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor_ >= 0) return;
  const int error = errno;
  restore();
  fail(ErrorCode::runtime, "launch: cannot create a signal descriptor: {}", std::strerror(error));
}

SignalQueue::~SignalQueue() {
  close(descriptor_);
  restore();
}

int SignalQueue::next() const {
  signalfd_siginfo info{};
  return read(descriptor_, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
}

void SignalQueue::restore() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace strobe
