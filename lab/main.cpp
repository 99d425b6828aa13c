// Program strobe-lab: measures the rungs of the ladder. `strobe ladder` runs it as a child process and reads its rows.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "app/program.h"
#include "app/terminal.h"
#include "core/clock.h"
#include "core/fail.h"
#include "lab/experiments.h"
#include "lab/options.h"
#include "measure/environment.h"
#include "report/ladder.h"
#include "results/schema.h"
#include "solve/case_files.h"
#include "solve/problem_file.h"

namespace strobe::lab {
namespace {

// Runs one rung on a problem file, as `strobe solve --rung` does. The file stores Q, K and V batch by batch; a rung
// needs one array per tensor. Returns the lines to print: "(B, N, d): (...)", "Time: ... seconds" (without file I/O),
// and with `timing` the times of all stages. If it throws Error, it leaves no output file.
std::string solve_file(const Rung& rung, const std::string& input, const std::string& output, bool timing) {
  const double start = now_seconds();
  const solve::ProblemFile file(input);
  const solve::ProblemSize& size = file.size();
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  if (size.batch > kMost || size.rows > kMost || size.dim > kMost)
    fail(ErrorCode::unsupported, "{}: ({}, {}, {}): a rung supports sizes up to 2^31 - 1", input, size.batch, size.rows,
         size.dim);
  RungProblem problem{static_cast<int>(size.batch), static_cast<int>(size.rows), static_cast<int>(size.dim)};
  const std::string refusal = refusal_of(rung, problem);
  if (!refusal.empty()) fail(ErrorCode::unsupported, "rung {}: {}", rung.name, refusal);

  solve::check_output_place(input, output);
  solve::AnswerFile answer(output, size);
  const auto total = static_cast<std::size_t>(size.total());
  std::vector<float> q(total), k(total), v(total), o(total);
  for (std::int64_t b = 0; b < size.batch; ++b) {
    const std::int64_t at = b * size.elements();
    std::copy_n(file.q(b), size.elements(), q.data() + at);
    std::copy_n(file.k(b), size.elements(), k.data() + at);
    std::copy_n(file.v(b), size.elements(), v.data() + at);
  }
  problem.q = q.data();
  problem.k = k.data();
  problem.v = v.data();
  const double read = now_seconds() - start;
  const double begun = now_seconds();
  const Split split = rung.run(problem, o.data());
  const double computed = now_seconds();
  answer.write(o.data(), size.total());
  answer.commit();
  const double write = now_seconds() - computed;

  std::string text =
      fmt::format("(B, N, d): ({}, {}, {})\nTime: {:.3f} seconds\n", size.batch, size.rows, size.dim, computed - begun);
  if (timing) {
    text += fmt::format(
        "read {:.3f}, setup {:.3f}, host to device {:.3f}, kernel {:.3f}, device to host {:.3f}, write "
        "{:.3f} seconds\n",
        read, split.allocate + split.create + split.pin, split.to_device, split.kernel, split.to_host, write);
  }
  return text;
}

void solve_problem(const Options& options) {
  set_signal_message("ended by a signal; nothing was written");
  const std::string lines = solve_file(*options.rungs[0], *options.input, *options.output, options.timing);
  set_signal_message("ended by a signal");
  print(lines);
}

void list_rungs() {
  for (const Rung& rung : rungs()) {
    print(fmt::format("{:<13} {:<4} {}{}\n", rung.name, rung.processor == Processor::gpu ? "gpu" : "cpu", rung.idea,
                      rung.run ? "" : " (not in this build)"));
  }
}

// Prints rows as JSON lines when they arrive, or as tables at the end.
class Rows {
 public:
  Rows(bool json, std::string command) : json_(json), command_(std::move(command)) {}

  void add(Json row) {
    if (!json_) return all_.push_back(std::move(row));
    row.set(kVersionKey, kRowVersion);
    row.set("command", command_);
    row.set("environment", environment_);
    print(row.dump() + "\n");
  }

  // Adds a row for a case that does not run, with the reason.
  void refuse(Json row, const CourseCase& size, const std::string& reason) {
    row.set("case", case_json(size)).set("flops", size.flops()).set("status", "refused").set("reason", reason);
    add(std::move(row));
  }

  void end() const {
    if (!json_) print(tables_text(report::ladder_tables(all_)));
  }

 private:
  bool json_;
  std::string command_;
  Json environment_ = environment_json();
  std::vector<Json> all_;
};

// Returns why the experiments cannot run the case, or "" if they can. They support the same sizes as rung `pinned`.
std::string experiment_refusal(const CourseCase& size) {
  return refusal_of(find_rung("pinned"), {size.batch, size.rows, size.dim});
}

void measure_rungs(const Options& options, const CourseCase& size, Subjects& subjects, Rows& rows) {
  for (const Rung* rung : options.rungs) {
    Json row = Json::object({{"kind", "rung"},
                             {"rung", rung->name},
                             {"idea", rung->idea},
                             {"device", rung->processor == Processor::gpu ? "gpu" : "cpu"}});
    const std::string refusal = refusal_of(*rung, {size.batch, size.rows, size.dim});
    if (refusal.empty())
      rows.add(measure({std::move(row), rung->run}, size, subjects, options.settings));
    else
      rows.refuse(std::move(row), size, refusal);
  }
}

void measure_ablation(const Options& options, const CourseCase& size, Subjects& subjects, Rows& rows) {
  const std::string refusal = experiment_refusal(size);
  if (!refusal.empty()) return rows.refuse(Json::object({{"kind", "ablation"}, {"without", ""}}), size, refusal);
  for (const Variant& variant : ablation()) {
    Json row = Json::object({{"kind", "ablation"}, {"without", variant.without}, {"device", "gpu"}});
    rows.add(measure({std::move(row), variant.run}, size, subjects, options.settings));
  }
}

void measure_tiles(const Options& options, const CourseCase& size, Subjects& subjects, Rows& rows) {
  const std::string refusal = experiment_refusal(size);
  if (!refusal.empty()) return rows.refuse(Json::object({{"kind", "tiles"}, {"br", 0}, {"bc", 0}}), size, refusal);
  for (const Tiles& tile : tiles()) {
    const TileFacts facts = tile.facts(size.dim);
    Json row = Json::object({{"kind", "tiles"},
                             {"br", tile.rows},
                             {"bc", tile.keys},
                             {"device", "gpu"},
                             {"threads", facts.threads},
                             {"shared_bytes", facts.shared_bytes},
                             {"registers", facts.registers},
                             {"blocks", facts.blocks},
                             {"occupancy", facts.occupancy}});
    if (facts.blocks == 0) {
      rows.refuse(std::move(row), size, "a multiprocessor of this GPU cannot hold a block");
    } else if (size.rows % tile.rows != 0 || size.rows % tile.keys != 0) {
      rows.refuse(std::move(row), size, fmt::format("N {} is not a multiple of both Br and Bc", size.rows));
    } else {
      rows.add(measure({std::move(row), tile.run}, size, subjects, options.settings));
    }
  }
}

void run_once(const Options& options) {
  for (const CourseCase& size : options.cases) {
    const Inputs inputs(size);
    std::vector<float> o(static_cast<std::size_t>(inputs.problem().elements()));
    for (const Rung* rung : options.rungs) {
      const std::string refusal = refusal_of(*rung, inputs.problem());
      if (!refusal.empty()) fail(ErrorCode::unsupported, "rung {}: {}", rung->name, refusal);
      rung->run(inputs.problem(), o.data());
    }
  }
}

void measure_all(const Options& options, std::string command) {
  Rows rows(options.json, std::move(command));
  for (const CourseCase& size : options.cases) {
    Subjects subjects;
    measure_rungs(options, size, subjects, rows);
    if (options.ablation) measure_ablation(options, size, subjects, rows);
    if (options.tiles) measure_tiles(options, size, subjects, rows);
  }
  rows.end();
}

int run(Arguments arguments) {
  const std::vector<std::string> words(arguments.begin(), arguments.end());
  const Options options = parse_options(words);
  if (!options.help.empty())
    print(options.help);
  else if (options.list)
    list_rungs();
  else if (options.input)
    solve_problem(options);
  else if (options.once)
    run_once(options);
  else
    measure_all(options, fmt::format("strobe-lab {}", fmt::join(words, " ")));
  return kFine;
}

}  // namespace
}  // namespace strobe::lab

int main(int count, char** words) { return strobe::run_as_program("strobe-lab", count, words, strobe::lab::run); }
