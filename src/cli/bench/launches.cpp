// `strobe bench --launches N`: the same command in N processes of its own, one after the other, their rows in one list.
// A process has its memory layout and its moment for all of its samples; what differs from one to the next is only seen
// so, and `strobe compare` needs it.
#include "cli/bench/launches.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "app/command.h"
#include "app/forecast.h"
#include "app/terminal.h"
#include "core/fail.h"
#include "measure/clock.h"

namespace strobe::cli {
namespace {

struct Ended {
  int code;
  std::string output;
};

// Runs this program again; its error output is ours. It ends with us, whatever ends us.
Ended run_self(const std::vector<std::string>& arguments) {
  int ends[2];
  if (pipe(ends) != 0) fail(ErrorCode::runtime, "--launches: no pipe: {}", std::strerror(errno));
  std::vector<char*> words;
  for (const std::string& word : arguments) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) fail(ErrorCode::runtime, "--launches: no process: {}", std::strerror(errno));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execv("/proc/self/exe", words.data());
    _exit(127);
  }
  close(ends[1]);
  Ended ended{};
  char block[1 << 14];
  for (ssize_t count; (count = read(ends[0], block, sizeof(block))) != 0;) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    ended.output.append(block, static_cast<std::size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

}  // namespace

LaunchedRows run_launches(Arguments arguments, int launches, const std::string& command) {
  std::vector<std::string> words{"strobe", "bench"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.push_back("--" + std::string(kLaunchFlag));
  LaunchedRows out{.code = kFine, .rows = Json::array()};
  Forecast forecast;
  for (int i = 0; i < launches; ++i) {
    print_aside(fmt::format("launch {} of {}\n", i + 1, launches));
    const double begin = now_seconds();
    const Ended ended = run_self(words);
    if (ended.code != kFine) return {.code = ended.code, .rows = {}};
    forecast.tell((launches - 1 - i) * (now_seconds() - begin));
    Json answer = Json::parse(ended.output);
    if (!answer.is_array()) answer = Json::array({answer});
    for (Json row : answer.as_array()) {
      row.set("launch", Json::object({{"number", i + 1}, {"of", launches}})).set("command", command);
      out.rows.push_back(std::move(row));
    }
  }
  return out;
}

}  // namespace strobe::cli
