// Steps and rows to lines, and a failure that concerns a whole case to a row for each implementation.
#include "cli/bench/events.h"

#include <new>

#include "app/command.h"
#include "app/terminal.h"
#include "core/json.h"

namespace strobe::cli {
namespace {

void tell(const Json& event) { print(event.dump() + "\n"); }

bench::Status status_of(ErrorCode code) {
  if (code == ErrorCode::out_of_memory) return bench::Status::oom;
  return code == ErrorCode::unsupported ? bench::Status::unsupported : bench::Status::crashed;
}

// Rows that nothing is known of but why there is none.
std::vector<bench::Row> rows_without(const bench::Case& one, const bench::Implementations& implementations,
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

int tell_events(const std::vector<bench::Case>& cases, const bench::Implementations& implementations,
                bench::RunOptions options, const bench::RunRecord& record) {
  tell(Json::object({{"environment", record.environment}}));
  options.progress = [](const std::string& step, const std::string& implementation) {
    tell(Json::object({{"step", step}, {"implementation", implementation}}));
  };
  for (const bench::Case& one : cases) {
    std::vector<std::string> told;
    const auto tell_row = [&](const bench::Row& row) {
      for (const std::string& name : told) {
        if (name == row.implementation) return;
      }
      told.push_back(row.implementation);
      tell(Json::object({{"row", row_json(row, record)}}));
    };
    options.failed = tell_row;
    std::vector<bench::Row> rows;
    try {
      rows = bench::run_case(one, implementations, options);
    } catch (const Error& error) {
      rows = rows_without(one, implementations, status_of(error.code()), error.what());
    } catch (const std::bad_alloc&) {
      rows = rows_without(one, implementations, bench::Status::oom, "out of memory");
    }
    for (const bench::Row& row : rows) tell_row(row);
  }
  return kFine;
}

}  // namespace strobe::cli
