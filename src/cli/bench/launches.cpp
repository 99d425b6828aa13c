// `strobe bench --launches N` runs the same command in N processes, one after the other, and joins their rows in one
// list. All samples of one process share its memory layout and run in the same minutes. Several processes therefore
// show the variation between launches, which `strobe compare` needs.
#include "cli/bench/launches.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "app/program.h"
#include "app/progress.h"
#include "app/terminal.h"
#include "core/clock.h"
#include "core/json.h"
#include "process/spawn.h"

namespace strobe::cli {
namespace {

struct Ended {
  int code;
  std::string output;
};

// Runs this program again. The child inherits standard error and ends with this process.
Ended run_self(const std::vector<std::string>& command) {
  Pipe output;
  const pid_t child = spawn(command, {.output = output.write.get(),
                                      .others = SpawnOptions::Others::inherited,
                                      .own_group = false,
                                      .death_signal = SIGTERM});
  output.write.reset();
  Ended ended{};
  char block[1 << 14];
  for (ssize_t count; (count = read(output.read.get(), block, sizeof(block))) != 0;) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    ended.output.append(block, static_cast<std::size_t>(count));
  }
  ended.code = exit_code_of(wait_for(child));
  return ended;
}

void print_event(const Json& event) { print(event.dump() + "\n"); }

bench::Status status_of(ErrorCode code) {
  if (code == ErrorCode::out_of_memory) return bench::Status::oom;
  return code == ErrorCode::unsupported ? bench::Status::unsupported : bench::Status::crashed;
}

// Returns one row per implementation with only the status and the reason.
std::vector<bench::Row> rows_without(const bench::AttentionCase& one, const bench::Implementations& implementations,
                                     bench::Status status, const char* reason) {
  std::vector<bench::Row> rows(implementations.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].one = one;
    rows[i].implementation = implementations[i]->name();
    rows[i].status = status;
    rows[i].reason = reason;
  }
  return rows;
}

}  // namespace

LaunchedRows run_launches(Arguments arguments, int launches, const std::string& command) {
  std::vector<std::string> words{this_program().string(), "bench"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.push_back("--" + std::string(kLaunchFlag));
  LaunchedRows out{.code = kFine, .rows = Json::array()};
  Forecast forecast;
  for (int i = 0; i < launches; ++i) {
    print_aside(fmt::format("launch {} of {}\n", i + 1, launches));
    const double begin = now_seconds();
    const Ended ended = run_self(words);
    if (ended.code != kFine) return {.code = ended.code, .rows = {}};
    forecast.print_once((launches - 1 - i) * (now_seconds() - begin));
    Json answer = Json::parse(ended.output);
    if (!answer.is_array()) answer = Json::array({answer});
    for (Json row : answer.as_array()) {
      row.set("launch", Json::object({{"number", i + 1}, {"of", launches}})).set("command", command);
      out.rows.push_back(std::move(row));
    }
  }
  return out;
}

int print_events(const std::vector<bench::AttentionCase>& cases, const bench::Implementations& implementations,
                 bench::RunOptions options, const bench::RunRecord& record) {
  print_event(Json::object({{"environment", record.environment}}));
  options.progress = [](const std::string& step, const std::string& implementation) {
    print_event(Json::object({{"step", step}, {"implementation", implementation}}));
  };
  for (const bench::AttentionCase& one : cases) {
    std::vector<std::string> reported;
    const auto report_row = [&](const bench::Row& row) {
      for (const std::string& name : reported) {
        if (name == row.implementation) return;
      }
      reported.push_back(row.implementation);
      print_event(Json::object({{"row", row_json(row, record)}}));
    };
    options.failed = report_row;
    std::vector<bench::Row> rows;
    try {
      rows = bench::run_case(one, implementations, options);
    } catch (const Error& error) {
      rows = rows_without(one, implementations, status_of(error.code()), error.what());
    } catch (const std::bad_alloc&) {
      rows = rows_without(one, implementations, bench::Status::oom, "out of memory");
    }
    for (const bench::Row& row : rows) report_row(row);
  }
  return kFine;
}

}  // namespace strobe::cli
