// Implements `strobe ladder`: runs strobe-lab, the program of the teaching ladder, prints tables and draws charts.
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "app/help.h"
#include "app/options.h"
#include "app/terminal.h"
#include "cli/course/lab_program.h"
#include "cli/report/row_file.h"
#include "cli/verbs.h"
#include "core/fail.h"
#include "core/printable.h"
#include "device/gpu_facts.h"
#include "process/child.h"
#include "report/ladder.h"

namespace strobe::cli {
namespace {

constexpr const char* kLadderIntroduction =
    "usage: strobe ladder [--flag value ...]\n\n"
    "Measures the teaching ladder (lab/): 16 kernel variants (rungs) from the course's sequential program to the\n"
    "library's kernel, each adding one idea. Every rung is checked against float64, then timed. GPU rungs are refused\n"
    "without a GPU; if no rung can run, nothing is written and the exit code is 2. Writes each row to FILE.jsonl once "
    "it\n"
    "is measured, then FILE.md with tables, and charts as SVG. --input FILE writes tables and charts again.\n\n"
    "  strobe ladder --case t28 --ablation --tiles --profile --output t28.jsonl\n"
    "  strobe ladder --case t01-t10,t11,t15,t20,t24,t28 --rungs pinned --profile --output rising.jsonl\n"
    "  strobe ladder --case t10 --scale 0.1 --rungs sequential,cpu-library\n"
    "  strobe ladder --input t28.jsonl\n\n";

constexpr const char* kLadderTitle = "The ladder";

// Throws an error of this command for a failed strobe-lab. Bad input keeps strobe-lab's message.
[[noreturn]] void fail_like(const ChildEnd& end) {
  constexpr std::string_view kName = "strobe-lab: ";
  std::string text = end.last_error;
  if (text.starts_with(kName)) text.erase(0, kName.size());
  if (end.signal == 0 && end.code == kBadInput) fail(ErrorCode::invalid_argument, "ladder: {}", text);
  fail(ErrorCode::runtime, "ladder: strobe-lab {}", end.text());
}

// Returns the reasons of rows that are all refusals: "shared, pinned, --tiles: this build has no CUDA".
std::string refusals_text(const std::vector<Json>& rows) {
  std::vector<std::pair<std::string, std::vector<std::string>>> by_reason;  // reason, distinct names
  for (const Json& row : rows) {
    const Json* rung = row.find("rung");
    const std::string who = rung ? rung->as_string() : "--" + row.at("kind").as_string();
    const std::string& reason = row.at("reason").as_string();
    auto found = std::find_if(by_reason.begin(), by_reason.end(), [&](const auto& one) { return one.first == reason; });
    if (found == by_reason.end()) found = by_reason.insert(found, {reason, {}});
    auto& names = found->second;
    if (std::find(names.begin(), names.end(), who) == names.end()) names.push_back(who);
  }
  std::vector<std::string> parts;
  for (const auto& [reason, names] : by_reason) parts.push_back(fmt::format("{}: {}", fmt::join(names, ", "), reason));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::vector<Json> run_lab(const std::vector<std::string>& command, RowFile& file, const std::string& output) {
  Child child(command, {});
  std::vector<Json> rows;
  std::string line;
  for (Child::Heard heard; (heard = child.hear(line, 1)) != Child::Heard::end;) {
    if (heard == Child::Heard::nothing) continue;
    rows.push_back(Json::parse(line));
    const Json& row = rows.back();
    if (row.at("status").as_string() == "refused") {
      file.add_refused(line);
    } else {
      // Set before add(), because the row is in the file before add() has synced it to disk.
      if (file.rows() == 0) set_signal_message("ladder: " + ended_with_rows(output));
      file.add(line);
    }
    const Json* rung = row.find("rung");
    show_progress(fmt::format("{} {}: {}", row.at("kind").as_string(), rung ? rung->as_string() : "",
                              row.at("status").as_string()));
  }
  show_progress("");
  const ChildEnd end = child.end(10);
  if (end.signal != 0 || end.code != 0) fail_like(end);
  if (rows.empty()) fail(ErrorCode::runtime, "ladder: strobe-lab wrote no rows");
  if (file.rows() == 0) fail(ErrorCode::unsupported, "ladder: nothing could be run: {}", refusals_text(rows));
  return rows;
}

// Returns the charts with the suffixes of their file names: none for the ladder chart of the first case, a number for
// the ladder charts of later cases, the figure's id for other charts.
std::vector<Chart> charts_of(const std::vector<Json>& rows) {
  std::vector<Chart> charts;
  int ladders = 0;
  for (report::Figure& figure : report::ladder_figures(rows)) {
    std::string suffix = "-" + figure.id;
    if (figure.id == "ladder") suffix = ++ladders == 1 ? "" : fmt::format("-{}", ladders);
    charts.push_back({.suffix = std::move(suffix), .figure = std::move(figure)});
  }
  return charts;
}

bool is_wrong(const Json& row) {
  const std::string& status = row.at("status").as_string();
  return status == "wrong" || status == "failed";
}

bool needs_gpu(const Json& row) {
  const Json* device = row.find("device");
  return row.at("status").as_string() == "refused" && device && device->as_string() == "gpu";
}

// The parsed flags. Either they are for a run of strobe-lab, or `input` names a file with rows of an earlier run.
struct Request {
  std::vector<std::string> for_lab;  // flags that strobe-lab checks
  bool ablation = false, tiles = false, profile = false;
  std::string input, output;

  bool measures() const { return !for_lab.empty() || ablation || tiles || profile || !output.empty(); }
};

OptionTable option_table(Request& request) {
  OptionTable table;
  const auto pass_on = [&](const char* name, const char* placeholder, const char* help) {
    table.add(name, placeholder, help, [&request, name](auto, auto value) {
      request.for_lab.push_back(std::string("--") + name);
      request.for_lab.emplace_back(value);
    });
  };
  table.begin_group("problem");
  pass_on("case", "CASE", "t01 to t30, a list (t01,t28) or range (t01-t10), all, or \"b4 s16384 d64\"; default t28");
  pass_on("scale", "F", "share of a case's work to run, above 0 and at most 1; for small machines");
  pass_on("rungs", "A,B", "only these rungs, or none; default all (strobe-lab --list)");
  table.begin_group("measurement");
  pass_on("limit", "S",
          "seconds; a run that would take longer uses a smaller case, scaled up; default 30, without a GPU 3");
  pass_on("repeats", "N", "exactly N samples");
  pass_on("time-limit", "S", "seconds of sampling per rung; default 5, without a GPU 1");
  table.add(make_switch("ablation", "also measures the best rung without each of its ideas", request.ablation));
  table.add(make_switch("tiles", "also measures tiles Br x Bc, with shared memory and occupancy", request.tiles));
  table.add(make_switch("profile", "also reads hardware counters of every rung, by ncu", request.profile));
  table.begin_group("output");
  table.add("output", "FILE", "rows as JSON lines; .md and .svg have the same name; default ladder.jsonl",
            into(request.output, parse_text));
  table.add("input", "FILE", "shows rows of an earlier run and writes its .md and .svg again; takes no other flag",
            into(request.input, parse_text));
  return table;
}

void check_extension(const char* flag, const std::string& file) {
  const std::string extension = std::filesystem::path(file).extension().string();
  if (extension != ".jsonl" && extension != ".json")
    fail(ErrorCode::invalid_argument, "{} {}: valid: a file that ends in .jsonl or .json", flag, printable_value(file));
}

std::vector<Json> measure(const Request& request) {
  std::vector<std::string> command{lab_program(), "--json"};
  command.insert(command.end(), request.for_lab.begin(), request.for_lab.end());
  for (const auto& [flag, seconds] : {std::pair{"--limit", "3"}, {"--time-limit", "1"}}) {
    const bool given = std::find(request.for_lab.begin(), request.for_lab.end(), flag) != request.for_lab.end();
    if (!given && !current_gpu().reason.empty()) command.insert(command.end(), {flag, seconds});
  }
  if (request.ablation) command.emplace_back("--ablation");
  if (request.tiles) command.emplace_back("--tiles");
  RowFile file(request.output, kLadderTitle);
  set_signal_message(fmt::format("ladder: {}", kEndedWithoutRows));
  std::vector<Json> rows = run_lab(command, file, request.output);
  if (!request.profile) return rows;
  std::vector<Json> profiles;
  profile_rungs(command.front(), rows, [&](Json row) {
    file.add(row.dump());
    profiles.push_back(std::move(row));
  });
  if (profiles.empty()) print_aside("note: --profile reads GPU counters, but none of these rungs runs on a GPU\n");
  rows.insert(rows.end(), profiles.begin(), profiles.end());
  return rows;
}

}  // namespace

int run_ladder(Arguments arguments) {
  Request request;
  const OptionTable table = option_table(request);
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print_help(kLadderIntroduction + table.help());
    return kFine;
  }
  const bool reads = !request.input.empty();
  if (reads && request.measures())
    fail(ErrorCode::invalid_argument, "--input {}: nothing is measured; valid: no other flag",
         printable_value(request.input));
  if (request.output.empty()) request.output = "ladder.jsonl";
  check_extension(reads ? "--input" : "--output", reads ? request.input : request.output);
  if (reads) check_documents(request.input, kLadderTitle);

  const std::vector<Json> rows = reads ? report::read_ladder_rows(request.input) : measure(request);
  std::vector<Table> tables = report::ladder_tables(rows);
  for (Table& table : launch_tables(rows)) tables.push_back(std::move(table));
  print(tables_text(tables));
  if (std::any_of(rows.begin(), rows.end(), needs_gpu)) {
    print(
        note_lines({"a GPU adds the course's CUDA kernels, one idea each, with copies and streams timed, up to the "
                    "library's kernel; docs/ladder.md has the table of an H200"}));
  }
  const std::string& file = reads ? request.input : request.output;
  const std::vector<std::string> documents = write_documents(file, kLadderTitle, charts_of(rows), tables);
  print(fmt::format("written: {}{}\n", reads ? "" : file + ", ", fmt::join(documents, ", ")));
  return std::any_of(rows.begin(), rows.end(), is_wrong) ? kFailedCheck : kFine;
}

}  // namespace strobe::cli
