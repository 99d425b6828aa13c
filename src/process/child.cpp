// Implements child processes. Waits by polling with deadlines; starts no thread and installs no signal handler.
#include "process/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/clock.h"
#include "core/fail.h"
#include "core/printable.h"
#include "core/write_all.h"
#include "process/spawn.h"

namespace strobe {

std::string ChildEnd::text() const {
  std::string text = signal ? fmt::format("died of signal {} ({})", signal, strsignal(signal))
                            : fmt::format("ended with exit code {}", code);
  if (!last_error.empty()) text += ": " + printable(last_error, std::string_view::npos);
  return text;
}

LineReader::Heard LineReader::hear(std::string& line, double seconds) {
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
    pollfd entry{.fd = descriptor(), .events = POLLIN, .revents = 0};
    const int ready = poll(&entry, 1, left <= 0 ? 0 : static_cast<int>(std::min(left, 1e5) * 1000) + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && now_seconds() < deadline) continue;
    if (ready == 0) return Heard::nothing;
    char buffer[1 << 14];
    const ssize_t got = read(descriptor(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Heard::end;
    pending_.append(buffer, static_cast<std::size_t>(got));
  }
}

Json request(int to, LineReader& from, const std::string& name, const Json& message, double timeout_seconds,
             const std::function<ChildEnd(double patience_seconds)>& end) {
  const auto crash = [&] { throw ChildError(ChildError::Kind::crashed, fmt::format("{} {}", name, end(2).text())); };
  // A request is far smaller than the buffer of a pipe or socket, so this write does not block.
  if (write_all(to, message.dump() + "\n") != 0) crash();
  std::string answer;
  const LineReader::Heard heard = from.hear(answer, timeout_seconds);
  if (heard == LineReader::Heard::end) crash();
  if (heard == LineReader::Heard::nothing) {
    end(0);
    throw ChildError(ChildError::Kind::timeout, fmt::format("{} did not answer within {} s", name, timeout_seconds));
  }
  try {
    return Json::parse(answer);
  } catch (const Error&) {
    throw ChildError(ChildError::Kind::crashed, fmt::format("{} answered \"{}\"", name, printable(answer)));
  }
}

Child::Child(const std::vector<std::string>& command, const ChildOptions& options)
    : name_(command.at(0)),
      errors_(memfd_create("strobe-child-errors", MFD_CLOEXEC)),
      output_(Descriptor(), options.longest_line) {
  Pipe input, output;
  pid_ = spawn(command, {.input = input.read.get(),
                         .output = output.write.get(),
                         .errors = errors_.get(),
                         .descriptors = options.descriptors,
                         .folder = options.folder});
  input_ = std::move(input.write);
  output_ = LineReader(std::move(output.read), options.longest_line);
}

Child::~Child() {
  close_input();
  if (pid_ > 0) wait_or_kill(2);
}

bool Child::is_running() {
  int status = 0;
  if (pid_ > 0 && !ended_ && waitpid(pid_, &status, WNOHANG) != 0) ended_ = status;
  return pid_ > 0 && !ended_;
}

int Child::wait_or_kill(double seconds) {
  const double deadline = now_seconds() + seconds;
  while (is_running()) {
    if (now_seconds() >= deadline) {
      kill(-pid_, SIGKILL);  // the process group: the child and every process it started
      kill(pid_, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  pid_ = -1;
  return *std::exchange(ended_, std::nullopt);
}

std::string Child::last_error_line() const {
  char tail[2048];
  const off_t size = lseek(errors_.get(), 0, SEEK_END);
  const off_t begin = size > static_cast<off_t>(sizeof(tail)) ? size - static_cast<off_t>(sizeof(tail)) : 0;
  const ssize_t got = pread(errors_.get(), tail, sizeof(tail), begin);
  std::string text(tail, got > 0 ? static_cast<std::size_t>(got) : 0);
  text.erase(text.find_last_not_of(" \n\r\t") + 1);
  const std::size_t line = text.rfind('\n');
  return line == std::string::npos ? text : text.substr(line + 1);
}

ChildEnd Child::end(double patience_seconds) {
  if (pid_ < 0) return {};
  const int status = wait_or_kill(patience_seconds);
  return {.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          .code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
          .last_error = last_error_line()};
}

Json Child::request(const Json& message, double timeout_seconds) {
  if (pid() < 0) throw ChildError(ChildError::Kind::crashed, fmt::format("{} has ended already", name_));
  return strobe::request(input(), output_, name_, message, timeout_seconds,
                         [this](double patience) { return end(patience); });
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
    } else if (heard == Child::Heard::end) {  // end of the child's output
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
