// Starts python/torch_peer.py, exchanges requests and answers with it, and kills it.
#include "bench/python_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/fail.h"
#include "core/write_all.h"
#include "measure/quiet.h"

namespace strobe::bench {
namespace {

constexpr int kSocket = 3, kMemory = 4;  // descriptors that a sweep's child inherits
constexpr const char* kEndLine = "end";

std::string interpreter() {
  const char* named = std::getenv("STROBE_PYTHON");
  return named && *named ? named : "python3";
}

Json cores_json() {
  Json cores = Json::array();
  for (const int core : allowed_cores()) cores.push_back(core);
  return cores;
}

// Takes ownership of a descriptor that the parent process passed.
Descriptor inherited(int number) {
  fcntl(number, F_SETFD, FD_CLOEXEC);
  return Descriptor(number);
}

Json json_of(const ChildEnd& end) {
  return Json::object({{"signal", end.signal}, {"code", end.code}, {"last_error", end.last_error}});
}

ChildEnd end_from(const Json& json) {
  return {.signal = static_cast<int>(json.at("signal").as_integer()),
          .code = static_cast<int>(json.at("code").as_integer()),
          .last_error = json.at("last_error").as_string()};
}

}  // namespace

std::string torch_absence() {
  constexpr double kMaxSeconds = 60;
  const std::string name = interpreter();
  const std::string find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
  try {
    const ChildEnd end = run_to_end({name, "-c", find}, kMaxSeconds).end;
    if (end.is_fine()) return {};
    return end.signal == 0 && end.code == 1 && end.last_error.empty() ? fmt::format("no PyTorch in {}", name)
                                                                      : fmt::format("{} {}", name, end.text());
  } catch (const Error& error) {
    return error.what();
  }
}

SharedMemory::SharedMemory() : file_(memfd_create("strobe-bench", MFD_CLOEXEC)) {
  if (!file_) fail(ErrorCode::runtime, "bench: shared memory: {}", std::strerror(errno));
}

SharedMemory::~SharedMemory() {
  if (data_) munmap(data_, bytes_);
}

void SharedMemory::resize(std::size_t bytes) {
  if (data_) munmap(data_, bytes_);
  data_ = nullptr;
  bytes_ = bytes;
  if (ftruncate(descriptor(), 0) != 0 || ftruncate(descriptor(), static_cast<off_t>(bytes)) != 0) {
    fail(ErrorCode::runtime, "bench: {} bytes of shared memory: {}", bytes, std::strerror(errno));
  }
  if (bytes == 0) return;
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor(), 0);
  if (mapped == MAP_FAILED) {
    fail(ErrorCode::out_of_memory, "bench: {} bytes of shared memory: {}", bytes, std::strerror(errno));
  }
  data_ = static_cast<char*>(mapped);
}

PythonProcess::PythonProcess() {
  const std::vector<std::string> command{interpreter(), "-u", "-c", torch_peer_script()};
  child_.emplace(command, ChildOptions{.descriptors = {memory_.descriptor()}});
}

PythonProcess::PythonProcess(pid_t lent) : memory_(inherited(kMemory)), relay_(inherited(kSocket)), lent_(lent) {}

Json PythonProcess::request(const Json& message, double timeout_seconds) {
  if (child_) return child_->request(message, timeout_seconds);
  const std::string name = interpreter();
  Json answer = strobe::request(relay_->descriptor(), *relay_, name, message, timeout_seconds, [&](double) {
    end();
    return ChildEnd{};
  });
  if (const Json* ended = answer.find("ended"))
    throw ChildError(ChildError::Kind::crashed, fmt::format("{} {}", name, end_from(*ended).text()));
  return answer;
}

void PythonProcess::end() {
  if (child_) child_->end(0);
  if (!child_) write_all(relay_->descriptor(), kEndLine + std::string("\n"));
}

PythonRelay::PythonRelay(PythonProcess& python) : python_(python) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    fail(ErrorCode::runtime, "sweep: no socket: {}", std::strerror(errno));
  theirs_.reset(ends[0]);
  questions_.emplace(Descriptor(ends[1]));
}

void PythonRelay::start() {
  theirs_.reset();
  thread_ = std::thread([this] { run(); });
}

bool PythonRelay::finish() {
  if (thread_.joinable()) {
    shutdown(questions_->descriptor(), SHUT_RD);  // a process that the child started may hold the other end
    thread_.join();
  }
  return idle_ && python_.child().is_running();
}

void PythonRelay::run() {
  constexpr double kForever = 1e9;
  sigset_t pipes;  // blocked, so that a write to a process that has ended fails with EPIPE
  sigemptyset(&pipes);
  sigaddset(&pipes, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipes, nullptr);
  std::string question;
  while (questions_->hear(question, kForever) == LineReader::Heard::line) {
    idle_ = pass_on(question);
    if (!idle_) return;
  }
}

// Sends one request to Python and its answer back. Returns false if Python has been killed: it did not answer, or the
// request was to end it.
bool PythonRelay::pass_on(const std::string& question) {
  Child& python = python_.child();
  if (question != kEndLine) {
    write_all(python.input(), question + "\n");
    pollfd entries[] = {{.fd = python.output().descriptor(), .events = POLLIN, .revents = 0},
                        {.fd = questions_->descriptor(), .events = POLLIN, .revents = 0}};
    while (poll(entries, 2, -1) < 0 && errno == EINTR) {
    }
    std::string line;
    if (entries[0].revents != 0) {
      const bool answered = python.hear(line, 1e9) == LineReader::Heard::line;
      if (!answered) line = Json::object({{"ended", json_of(python.end(2))}}).dump();
      return write_all(questions_->descriptor(), line + "\n") == 0 && answered;
    }
  }
  python.end(0);  // the child asked to kill Python, or has ended without waiting for the answer
  return false;
}

PythonChild::PythonChild(double timeout, std::optional<pid_t> lent) : timeout_(timeout), lent_(lent) {
  struct stat status {};
  if (!lent || (fstat(kSocket, &status) == 0 && S_ISSOCK(status.st_mode))) return;
  fail(ErrorCode::invalid_argument, "--{} {}: descriptor {} is not a socket; only sweeps pass this flag",
       kLentPythonFlag, *lent, kSocket);
}

void PythonChild::start(int threads) {
  if (process_ && refusal_.empty()) return;
  if (process_) fail(ErrorCode::unsupported, "{}", refusal_);
  if (lent_) {
    process_ = std::make_unique<PythonProcess>(*std::exchange(lent_, std::nullopt));
  } else {
    try {
      process_ = std::make_unique<PythonProcess>();
    } catch (const Error& error) {
      fail(error.code(), "{}; STROBE_PYTHON names another interpreter", error.what());
    }
  }
  ++generation_;
  refusal_.clear();
  Json hello;
  try {
    hello = ask(Json::object({{"command", "hello"}, {"threads", threads}, {"cores", cores_json()}}));
  } catch (const Error& error) {
    refusal_ = error.what();
    throw;
  }
  versions_ = fmt::format("torch {}, python {}", hello.at("torch").as_string(), hello.at("python").as_string());
}

// Ends Python, because its next answer may belong to an earlier request.
void PythonChild::give_up() {
  process_->end();
  process_.reset();
}

Json PythonChild::ask(const Json& message) {
  if (!process_) throw ImplementationError(Status::crashed, "the child process has ended");
  Json answer;
  bool ok = false;
  std::string status, reason;
  MemoryShortage memory;
  try {
    answer = process_->request(message, timeout_);
    ok = answer.at("ok").as_bool();
    if (!ok) {
      status = answer.at("status").as_string();
      reason = answer.at("reason").as_string();
      if (const Json* asked = answer.find("asked")) memory.asked = asked->as_integer();
      if (const Json* free = answer.find("free")) memory.free = free->as_integer();
    }
    const Json* unusable = answer.find("unusable");
    if (unusable && unusable->as_bool()) give_up();
  } catch (const ChildError& error) {
    give_up();
    throw ImplementationError(error.kind() == ChildError::Kind::timeout ? Status::timeout : Status::crashed,
                              error.what());
  } catch (const Error& error) {
    give_up();
    throw ImplementationError(Status::crashed, error.what());
  }
  if (ok) return answer;
  if (status == "unsupported") fail(ErrorCode::unsupported, "{}", reason);
  throw ImplementationError(status == "oom" ? Status::oom : Status::crashed, reason, memory);
}

}  // namespace strobe::bench
