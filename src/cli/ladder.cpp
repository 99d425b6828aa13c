// `strobe ladder`: runs strobe-lab, the ladder's own program, as a child; prints its tables and draws its charts.
#include <filesystem>
#include <system_error>

#include "bench/child.h"
#include "cli/commands.h"
#include "cli/lab_program.h"
#include "cli/ladder_profile.h"
#include "cli/options.h"
#include "cli/row_file.h"
#include "core/atomic_file.h"
#include "core/fail.h"
#include "core/printable.h"
#include "report/ladder.h"
#include "report/svg.h"

namespace strobe::cli {
namespace {

constexpr const char* kIntroduction =
    "usage: strobe ladder [--flag value ...]\n\n"
    "A teaching set apart from the library (lab/): from the course's sequential program to the library's kernel, each\n"
    "rung one idea further, all checked against float64 before they are timed. Rungs that need a GPU are refused "
    "where\n"
    "there is none. Writes FILE.jsonl (a row when it is known), FILE.md and charts as SVG beside it.\n\n"
    "  strobe ladder --case t28 --ablation --tiles --profile --output t28.jsonl\n"
    "  strobe ladder --case t10 --scale 0.1 --rungs sequential,cpu-library\n\n";

// Bad input that the child found is told as our own.
[[noreturn]] void fail_like(const bench::ChildEnd& end) {
  constexpr std::string_view kName = "strobe-lab: ";
  std::string text = end.last_error;
  if (text.starts_with(kName)) text.erase(0, kName.size());
  if (end.signal == 0 && end.code == kBadInput) fail(ErrorCode::invalid_argument, "ladder: {}", text);
  fail(ErrorCode::runtime, "ladder: strobe-lab {}", end.text());
}

std::vector<Json> run_lab(const std::vector<std::string>& command, RowFile& file) {
  bench::Child child(command, {});
  std::vector<Json> rows;
  std::string line;
  for (bench::Child::Heard heard; (heard = child.hear(line, 1)) != bench::Child::Heard::end;) {
    if (heard == bench::Child::Heard::nothing) continue;
    rows.push_back(Json::parse(line));
    file.add(line);
    const Json& row = rows.back();
    const Json* rung = row.find("rung");
    show_progress(fmt::format("{} {}: {}", row.at("kind").as_string(), rung ? rung->as_string() : "",
                              row.at("status").as_string()));
  }
  show_progress("");
  const bench::ChildEnd end = child.end(10);
  if (end.signal != 0 || end.code != 0) fail_like(end);
  return rows;
}

void write(const std::filesystem::path& path, const std::string& contents) {
  AtomicFile file(path.string(), "--output");
  file.commit(contents);
}

// "t28.jsonl" -> t28.md, t28.svg; with several charts of one kind their case or counter is in the name.
std::vector<std::string> write_documents(const std::filesystem::path& output, const std::vector<Json>& rows,
                                         const std::vector<report::LadderTable>& tables) {
  const std::filesystem::path stem = output.parent_path() / output.stem();
  std::vector<std::string> written;
  std::string markdown = "# The ladder\n\n";
  int charts = 0;
  for (const report::Figure& figure : report::ladder_figures(rows)) {
    const bool first = figure.id == "ladder" && charts++ == 0;
    std::string name = stem.string();
    if (!first) name += "-" + (figure.id == "ladder" ? fmt::format("{}", charts) : figure.id);
    write(name + ".svg", report::figure_svg(figure));
    markdown += fmt::format("![{}, {}]({}.svg)\n\n", figure.title, figure.view,
                            std::filesystem::path(name).filename().string());
    written.push_back(name + ".svg");
  }
  write(stem.string() + ".md", markdown + report::tables_markdown(tables));
  written.push_back(stem.string() + ".md");
  return written;
}

bool is_wrong(const Json& row) {
  const std::string& status = row.at("status").as_string();
  return status == "wrong" || status == "failed";
}

}  // namespace

int run_ladder(Arguments arguments) {
  std::string output = "ladder.jsonl";
  std::vector<std::string> given;  // for the child, which knows what is valid
  bool profile = false, ablation = false, tiles = false;
  OptionTable table;
  const auto pass_on = [&](const char* name, const char* placeholder, const char* help) {
    table.add({.name = name, .placeholder = placeholder, .help = help, .apply = [&given, name](auto, auto value) {
                 given.push_back(std::string("--") + name);
                 given.emplace_back(value);
               }});
  };
  pass_on("case", "CASE", "t01 to t30, several (t01,t28), all, or B,N,d; default t28");
  pass_on("scale", "F", "that share of a case's work, above 0 to 1; for small machines");
  pass_on("rungs", "A,B", "those alone, or none; default all (strobe-lab --list)");
  pass_on("limit", "S", "a run that would take longer is done on a smaller case and scaled up; default 30");
  pass_on("repeats", "N", "exactly that many samples");
  pass_on("time-limit", "S", "for the samples of a rung; default 5");
  table.add(make_switch("ablation", "also the best hand-written kernel without each of its ideas", ablation));
  table.add(make_switch("tiles", "also a sweep over tiles Br x Bc, with shared memory and occupancy", tiles));
  table.add(make_switch("profile", "also hardware counters of every rung, by ncu", profile));
  table.add({.name = "output",
             .placeholder = "FILE",
             .help = "rows as JSON lines, with FILE's .md and .svg beside it; default ladder.jsonl",
             .apply = [&](auto, auto value) { output = value; }});
  if (table.parse(arguments) == OptionTable::Outcome::help) {
    print(kIntroduction + table.help());
    return kFine;
  }
  const std::string extension = std::filesystem::path(output).extension().string();
  if (extension != ".jsonl" && extension != ".json")
    fail(ErrorCode::invalid_argument, "--output {}: valid: a file that ends in .jsonl or .json",
         printable_value(output));

  std::vector<std::string> command{lab_program(), "--json"};
  command.insert(command.end(), given.begin(), given.end());
  if (ablation) command.emplace_back("--ablation");
  if (tiles) command.emplace_back("--tiles");
  RowFile file(output, "--output");
  std::vector<Json> rows = run_lab(command, file);
  if (profile) {
    for (Json& row : profile_rungs(command.front(), rows)) {
      file.add(row.dump());
      rows.push_back(std::move(row));
    }
  }
  const std::vector<report::LadderTable> tables = report::ladder_tables(rows);
  print(report::tables_text(tables));
  const std::vector<std::string> written = write_documents(output, rows, tables);
  print(fmt::format("written: {}, {}\n", output, fmt::join(written, ", ")));
  return std::any_of(rows.begin(), rows.end(), is_wrong) ? kFailedCheck : kFine;
}

}  // namespace strobe::cli
