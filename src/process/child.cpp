// fork and exec with three descriptors; poll with a deadline; no thread, no signal handler.
#include "process/child.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>
#include <thread>

#include "core/clock.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe {
namespace {

void close_quietly(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

// After fork: only calls that are safe there. Descriptor i of the list becomes number i: input, output, errors, and
// what else passes on. Reports the error of exec through `report`.
[[noreturn]] void become(char* const* arguments, const char* folder, std::span<int> descriptors, int report,
                         pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before it could be watched
  setpgid(0, 0);
  signal(SIGPIPE, SIG_DFL);
  // Lift everything above the fixed numbers first, so that no dup2 overwrites one that is still needed.
  const int count = static_cast<int>(descriptors.size());
  for (int& descriptor : descriptors) descriptor = fcntl(descriptor, F_DUPFD, count);
  const int high_report = fcntl(report, F_DUPFD_CLOEXEC, count);
  for (int i = 0; i < count; ++i) dup2(descriptors[static_cast<std::size_t>(i)], i);
  close_range(static_cast<unsigned>(count), ~0u, CLOSE_RANGE_CLOEXEC);  // nothing else of ours passes on
  if (*folder == '\0' || chdir(folder) == 0) execvp(arguments[0], arguments);
  const int error = errno;
  if (write(high_report, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

struct Pipe {
  int read = -1;
  int write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail(ErrorCode::runtime, "bench: pipe: {}", std::strerror(errno));
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    close_quietly(read);
    close_quietly(write);
  }
};

// The wait status of a process that has ended and that its parent has not waited for; 0 where there is no such process
// any more; empty while it runs. Of somebody else's child nothing but /proc tells.
std::optional<int> wait_status_of_other(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  if (!(fields >> field)) return 0;
  if (field != "Z" && field != "X") return std::nullopt;
  constexpr int kState = 3, kExitCode = 52;  // proc(5)
  for (int i = kState; i < kExitCode; ++i) fields >> field;
  return std::atoi(field.c_str());
}

}  // namespace

SharedMemory::SharedMemory() : descriptor_(memfd_create("strobe-bench", MFD_CLOEXEC)) {
  if (descriptor_ < 0) fail(ErrorCode::runtime, "bench: shared memory: {}", std::strerror(errno));
}

SharedMemory::~SharedMemory() {
  if (data_) munmap(data_, bytes_);
  close_quietly(descriptor_);
}

void SharedMemory::resize(std::size_t bytes) {
  if (data_) munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = bytes;
  if (ftruncate(descriptor_, 0) != 0 || ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) {
    fail(ErrorCode::runtime, "bench: {} bytes of shared memory: {}", bytes, std::strerror(errno));
  }
  if (bytes == 0) return;
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (mapped == MAP_FAILED) {
    fail(ErrorCode::out_of_memory, "bench: {} bytes of shared memory: {}", bytes, std::strerror(errno));
  }
  data_ = static_cast<char*>(mapped);
}

Child::Child(const std::vector<std::string>& command, const ChildOptions& options)
    : name_(command.at(0)), longest_line_(options.longest_line) {
  Pipe input;
  Pipe output;
  Pipe report;
  errors_ = memfd_create("strobe-child-errors", MFD_CLOEXEC);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  std::vector<int> descriptors{input.read, output.write, errors_};
  descriptors.insert(descriptors.end(), options.descriptors.begin(), options.descriptors.end());
  pid_ = fork();
  if (pid_ < 0) fail(ErrorCode::runtime, "bench: fork: {}", std::strerror(errno));
  if (pid_ == 0) become(arguments.data(), options.folder.c_str(), descriptors, report.write, parent);
  close_quietly(report.write);
  int error = 0;
  if (read(report.read, &error, sizeof(error)) == sizeof(error)) {
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
    close_quietly(errors_);
    fail(ErrorCode::unsupported, "cannot start {}: {}", name_, std::strerror(error));
  }
  input_ = std::exchange(input.write, -1);
  output_ = std::exchange(output.read, -1);
}

Child::Child(std::string name, const LentChild& lent)
    : name_(std::move(name)),
      lent_(true),
      pid_(lent.pid),
      input_(lent.input),
      output_(lent.output),
      errors_(lent.errors),
      longest_line_(ChildOptions().longest_line) {}

Child::~Child() {
  close_quietly(input_);
  if (pid_ > 0 && !lent_) wait_or_kill(2);
  close_quietly(output_);
  close_quietly(errors_);
}

void Child::close_input() { close_quietly(input_); }

std::optional<int> Child::wait_status() const {
  if (lent_) return wait_status_of_other(pid_);
  int status = 0;
  return waitpid(pid_, &status, WNOHANG) == 0 ? std::nullopt : std::optional(status);
}

int Child::wait_or_kill(double seconds) {
  const double deadline = now_seconds() + seconds;
  std::optional<int> status = ended_ ? ended_ : wait_status();
  while (!status) {
    if (now_seconds() >= deadline) {
      kill(-pid_, SIGKILL);  // its group: what it started too
      kill(pid_, SIGKILL);   // where it has no group yet
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    status = wait_status();
  }
  pid_ = -1;
  ended_.reset();
  return *status;
}

bool Child::is_running() {
  if (pid_ > 0 && !ended_) ended_ = wait_status();
  return pid_ > 0 && !ended_;
}

std::string Child::last_error_line() const {
  char tail[2048];
  const off_t size = lseek(errors_, 0, SEEK_END);
  const off_t begin = size > static_cast<off_t>(sizeof(tail)) ? size - static_cast<off_t>(sizeof(tail)) : 0;
  const ssize_t got = pread(errors_, tail, sizeof(tail), begin);
  std::string text(tail, got > 0 ? static_cast<std::size_t>(got) : 0);
  text.erase(text.find_last_not_of(" \n\r\t") + 1);
  const std::size_t line = text.rfind('\n');
  return line == std::string::npos ? text : text.substr(line + 1);
}

std::string ChildEnd::text() const {
  std::string text = signal ? fmt::format("died of signal {} ({})", signal, strsignal(signal))
                            : fmt::format("ended with exit code {}", code);
  if (!last_error.empty()) text += ": " + printable(last_error, std::string_view::npos);
  return text;
}

ChildEnd Child::end(double patience_seconds) {
  if (pid_ < 0) return {};
  const int status = wait_or_kill(patience_seconds);
  return {.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          .code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
          .last_error = last_error_line()};
}

void Child::report_end() { throw ChildError(ChildError::Kind::crashed, fmt::format("{} {}", name_, end(2).text())); }

Child::Heard Child::hear(std::string& line, double seconds) {
  const double deadline = now_seconds() + seconds;
  for (;;) {
    if (const std::size_t end = pending_.find('\n', searched_); end != std::string::npos) {
      line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      searched_ = 0;
      return Heard::line;
    }
    searched_ = pending_.size();
    if (pending_.size() > longest_line_) return Heard::end;
    const double left = deadline - now_seconds();
    pollfd entry{.fd = output_, .events = POLLIN, .revents = 0};
    const int ready = poll(&entry, 1, left <= 0 ? 0 : static_cast<int>(std::min(left, 1e5) * 1000) + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && now_seconds() < deadline) continue;
    if (ready == 0) return Heard::nothing;
    char buffer[1 << 14];
    const ssize_t got = read(output_, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Heard::end;
    pending_.append(buffer, static_cast<std::size_t>(got));
  }
}

Json Child::request(const Json& message, double timeout_seconds) {
  if (pid() < 0) throw ChildError(ChildError::Kind::crashed, fmt::format("{} has ended already", name_));
  const std::string line = message.dump() + "\n";
  // Requests are far smaller than a pipe's buffer, so that this does not block.
  if (write(input_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) report_end();
  std::string answer;
  switch (hear(answer, timeout_seconds)) {
    case Heard::line: break;
    case Heard::end: report_end();
    case Heard::nothing:
      end(0);
      throw ChildError(ChildError::Kind::timeout, fmt::format("{} gave no answer in {} s", name_, timeout_seconds));
  }
  try {
    return Json::parse(answer);
  } catch (const Error&) {
    throw ChildError(ChildError::Kind::crashed, fmt::format("{} answered \"{}\"", name_, printable(answer)));
  }
}

Printed run_to_end(const std::vector<std::string>& command, double most_seconds) {
  Child child(command, {});
  child.close_input();
  std::string text, line;
  for (const double begin = now_seconds();;) {
    const bool running = child.is_running();
    const Child::Heard heard = child.hear(line, running ? 0.1 : 0);
    if (heard == Child::Heard::line) {
      text += line + "\n";
    } else if (!running) {
      break;
    } else if (heard == Child::Heard::end) {  // of its output
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (now_seconds() - begin > most_seconds) {
      child.end(0);
      fail(ErrorCode::runtime, "{} took longer than {} s", command.front(), most_seconds);
    }
  }
  return {text + child.unended_line(), child.end(0)};
}

}  // namespace strobe
