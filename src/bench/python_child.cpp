// Starting, asking and giving up python/torch_peer.py.
#include "bench/python_child.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "core/fail.h"
#include "measure/quiet.h"

namespace strobe::bench {
namespace {

constexpr int kMemory = 3, kInput = 4, kOutput = 5, kErrors = 6;  // descriptors of a borrower

std::string interpreter() {
  const char* named = std::getenv("STROBE_PYTHON");
  return named && *named ? named : "python3";
}

Json cores_json() {
  Json cores = Json::array();
  for (const int core : own_cores()) cores.push_back(core);
  return cores;
}

// 0 where there is no such process.
pid_t parent_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text, state;
  std::getline(file, text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  pid_t parent = 0;
  fields >> state >> parent;
  return parent;
}

}  // namespace

std::string torch_absence() {
  constexpr double kMostSeconds = 60;
  const std::string name = interpreter();
  const std::string find = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)";
  try {
    const ChildEnd end = run_to_end({name, "-c", find}, kMostSeconds).end;
    if (end.signal == 0 && end.code == 0) return {};
    return end.signal == 0 && end.code == 1 && end.last_error.empty() ? fmt::format("no PyTorch in {}", name)
                                                                      : fmt::format("{} {}", name, end.text());
  } catch (const Error& error) {
    return error.what();
  }
}

PythonProcess::PythonProcess()
    : child({interpreter(), "-u", "-c", torch_peer_script()}, {.descriptors = {memory.descriptor()}}) {}

PythonProcess::PythonProcess(pid_t lent)
    : memory(kMemory), child(interpreter(), {.pid = lent, .input = kInput, .output = kOutput, .errors = kErrors}) {}

std::vector<int> PythonProcess::descriptors() const {
  std::vector<int> all = child.descriptors();
  all.insert(all.begin(), memory.descriptor());
  return all;
}

PythonChild::PythonChild(double timeout, std::optional<pid_t> lent) : timeout_(timeout), lent_(lent) {
  if (!lent || parent_of(*lent) == getppid()) return;
  fail(ErrorCode::invalid_argument, "--{} {}: not a child of the process that started this one; sweeps give this flag",
       kLentPythonFlag, *lent);
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

// Nobody knows what it would answer next.
void PythonChild::give_up() {
  process_->child.end(0);
  process_.reset();
}

Json PythonChild::ask(const Json& message) {
  if (!process_) throw ImplementationError(Status::crashed, "the child has ended");
  Json answer;
  bool ok = false;
  std::string status, reason;
  MemoryShortage memory;
  try {
    answer = process_->child.request(message, timeout_);
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
