// Parses the flags of `strobe sweep` and plans the sweep. Flags of bench stay text, which is expanded to combinations;
// bench's own parser then reads every combination.
#include "cli/sweep/options.h"

#include <algorithm>
#include <map>
#include <utility>

#include "bench/python_child.h"
#include "bench/sweep/grid_file.h"
#include "cli/bench/case_options.h"
#include "core/counted.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe::cli {
namespace {

void set_flag(GivenFlags& flags, const std::string& name, std::string_view value) {
  std::erase_if(flags, [&](const auto& given) { return given.first == name; });
  flags.emplace_back(name, value);
}

// Adds bench's flags that describe a case. Here each takes a comma-separated list.
void add_axes(OptionTable& table, std::vector<bench::Axis>& axes) {
  CaseOptions unused;
  OptionTable of_bench;
  add_case_options(of_bench, unused);
  for (Option option : of_bench.options()) {
    option.apply = [&axes, name = option.name](auto, auto value) {
      bench::set_axis(axes, bench::make_axis(name, value));
    };
    table.add(std::move(option));
  }
}

// Adds bench's measurement flags. Their text is kept as given.
void add_run_flags(OptionTable& table, GivenFlags& flags) {
  RunFlags unused;
  OptionTable of_bench;
  add_run_options(of_bench, unused);
  for (Option option : of_bench.options()) {
    option.apply = [&flags, name = option.name](auto, auto value) { set_flag(flags, name, value); };
    table.add(std::move(option));
  }
}

// Parses the words of a grid. Later words may override earlier ones.
void parse_words(const OptionTable& table, const std::vector<std::string>& words) {
  const std::vector<std::string_view> views(words.begin(), words.end());
  table.parse(views, OptionTable::Again::replaces);
}

std::vector<std::string> words_of_flags(const GivenFlags& flags) {
  std::vector<std::string> words;
  for (const auto& [name, value] : flags) words.push_back("--" + name + (value.empty() ? "" : "=" + value));
  return words;
}

void parse_shard(SweepOptions& options, std::string_view flag, std::string_view value) {
  const std::vector<std::string> parts = split(value, '/');
  if (parts.size() != 2) {
    fail(ErrorCode::invalid_argument, "{} {}: valid: K/N, such as 1/4 for the first of four", flag,
         printable_value(value));
  }
  options.shards = static_cast<int>(parse_integer(flag, parts[1], 1, 100000));
  options.shard = static_cast<int>(parse_integer(flag, parts[0], 1, options.shards));
}

// Returns the reason why a combination of sizes is impossible; empty if it is possible.
std::string reason_to_skip(const CaseOptions& options) {
  const bench::AttentionCase& one = options.given.values;
  const bool has_heads = options.given.has("num_heads");
  if (options.emb && has_heads && *options.emb % one.heads != 0) {
    return fmt::format("--emb_dim {}: not a multiple of --num_heads {}", *options.emb, one.heads);
  }
  if (has_heads && options.given.has("num_kv_heads") && one.heads % one.kv_heads != 0) {
    return fmt::format("--num_kv_heads {}: does not divide --num_heads {}", one.kv_heads, one.heads);
  }
  return {};
}

// Gathers the problems of all blocks of a grid.
class Gatherer {
 public:
  explicit Gatherer(std::int64_t shrink) : shrink_(shrink) {}

  void add_block(const std::vector<bench::Axis>& axes) {
    for (const bench::Combination& combination : bench::product_of(axes)) add(combination);
  }

  const std::vector<bench::SweepProblem>& problems() const { return list_.problems(); }

  std::vector<std::string> notes() const {
    std::vector<std::string> notes = notes_.value_or(std::vector<std::string>());
    for (const auto& [reason, cells] : skipped_)
      notes.push_back(fmt::format("{}: {} skipped", reason, counted(cells, "cell")));
    if (repeated_ > 0 && shrink_ > 1) {
      notes.push_back(
          fmt::format("{} left out as duplicates, some caused by --shrink {}", counted(repeated_, "cell"), shrink_));
    }
    return notes;
  }

  // Throws Error(invalid_argument) with the first reason if no cell is left.
  void check() const {
    if (problems().empty()) {
      fail(ErrorCode::invalid_argument, "{}; no cell is left", skipped_.empty() ? "sweep" : skipped_.begin()->first);
    }
  }

 private:
  void add(const bench::Combination& combination) {
    CaseOptions one;
    OptionTable table;
    add_case_options(table, one);
    parse_words(table, words_of_flags(combination));
    const std::size_t cells = one.causal.size() * one.implementations.size();
    if (const std::string reason = reason_to_skip(one); !reason.empty()) {
      skipped_[reason] += cells;
      return;
    }
    const Cases found = cases_of(one);
    if (!notes_) notes_ = found.notes;
    std::erase_if(*notes_, [&](const std::string& note) {  // keep only notes that apply to all cells
      return std::find(found.notes.begin(), found.notes.end(), note) == found.notes.end();
    });
    for (const bench::AttentionCase& each : found.cases) {
      bench::SweepProblem problem = bench::make_problem(each, one.implementations, shrink_);
      try {
        explain(bench::attention_of(problem.one), Pass::forward, bench::execution_of(problem.one));
      } catch (const Error& error) {  // for example, a head dimension that is too large
        skipped_[error.what()] += one.implementations.size();
        continue;
      }
      repeated_ += list_.add(std::move(problem));
    }
  }

  std::int64_t shrink_;
  bench::ProblemList list_;
  std::map<std::string, std::size_t> skipped_;  // number of skipped cells by reason
  std::size_t repeated_ = 0;
  std::optional<std::vector<std::string>> notes_;
};

std::string default_output(const SweepOptions& options) {
  std::string name = options.grid.substr(options.grid.rfind('/') + 1);
  if (name.ends_with(".grid")) name.resize(name.size() - 5);
  std::string file = name.empty() ? "sweep" : "sweep_" + name;
  if (options.shards > 1) file += fmt::format("_{}of{}", options.shard, options.shards);
  return file + ".jsonl";
}

bool has_axis(const std::vector<bench::Axis>& axes, std::string_view flag) {
  return std::ranges::any_of(axes, [&](const bench::Axis& axis) { return axis.flag == flag; });
}

void add_implementations(std::vector<bench::Axis>& axes, const std::vector<std::string>& names) {
  if (!has_axis(axes, "impl")) bench::set_axis(axes, bench::make_axis("impl", "Flash2"));
  for (bench::Axis& axis : axes) {
    if (axis.flag == "impl") axis.values = {fmt::format("{},{}", axis.values[0], fmt::join(names, ","))};
  }
}

// Adds the blocks of a grid. Adds the grid's peers (PyTorch implementations) to each block unless --impl is given. If
// PyTorch is missing, skips them with a note.
void gather_grid(const bench::Grid& grid, const SweepOptions& options, Gatherer& gatherer, SweepPlan& plan) {
  std::vector<std::string> peers;
  if (!has_axis(options.axes, "impl")) peers = grid.peers;
  const std::string reason = peers.empty() ? "" : bench::torch_absence();
  if (!reason.empty()) plan.absent_peers = std::exchange(peers, {});
  for (const std::vector<std::string>& block : grid.blocks) {
    std::vector<bench::Axis> axes;
    OptionTable table;
    add_axes(table, axes);
    parse_words(table, block);
    for (const bench::Axis& axis : options.axes) bench::set_axis(axes, axis);
    if (!peers.empty()) add_implementations(axes, peers);
    gatherer.add_block(axes);
  }
  if (plan.absent_peers.empty()) return;
  plan.notes.push_back(fmt::format("{}: {}: {} skipped; STROBE_PYTHON names another interpreter",
                                   fmt::join(plan.absent_peers, ", "), reason,
                                   counted(gatherer.problems().size() * plan.absent_peers.size(), "cell")));
}

// Returns a note on the grid for small machines if this one takes more than kLong seconds on a CPU; else nothing.
std::vector<std::string> notes_on_time(const SweepPlan& plan) {
  constexpr double kLong = 600;
  double seconds = 0;
  for (const bench::SweepProblem& problem : plan.problems) {
    if (problem.one.device == Device::cuda) return {};
    seconds += bench::predicted_seconds(problem, plan.how.run.rule);
  }
  if (seconds <= kLong) return {};
  return {"long on a CPU: `strobe sweep cpu` takes about two minutes; --shrink F makes a grid smaller"};
}

}  // namespace

void add_sweep_options(OptionTable& table, SweepOptions& options) {
  table.begin_group("grid");
  table.add("grid", "NAME|FILE", "a named grid (below) or a file with a slash in its path; flags override its values",
            into(options.grid, parse_text));
  table.begin_group("measurement");
  table.add_flag("dry-run", "list the cells with predicted time and memory; measure and write nothing",
                 options.dry_run);
  table.add_flag("retry", "measure again the cells whose status is crashed, timeout or wrong", options.retry);
  table.begin_group("output");
  table.add("output", "FILE", "JSON lines, one per row; a file of the same sweep is resumed; default sweep_GRID.jsonl",
            [&](auto flag, auto value) {
              if (value == "-") {
                fail(ErrorCode::invalid_argument,
                     "{} -: a sweep needs a file to resume from; valid: a file, such as ./-", flag);
              }
              options.output = value;
            });
  table.add("json-dir", "DIR", "also one JSON file per cell, with the file names of the source report's script",
            [&](auto flag, auto value) {
              if (value.empty()) fail(ErrorCode::invalid_argument, "{} \"\": a folder is needed", flag);
              options.json_dir = value;
            });
  table.begin_group("grid");
  table.add("shrink", "F",
            "divide the batch by F, down to 1, then the sequence by the rest of F, down to 512; for small machines",
            integer_into(options.shrink, 1, 1 << 20));
  table.begin_group("measurement");
  table.add("launches", "N",
            "measure the whole grid N times, each cell in N processes; 5 for `strobe compare`; default 1",
            integer_into(options.launches, 1, 1000));
  table.add("shard", "K/N", "only the K-th of N shares of the grid, which take about equally long",
            [&](auto flag, auto value) { parse_shard(options, flag, value); });
  table.add("cell-limit", "SECONDS", "limit per cell; a cell that takes longer gets status timeout; default 600",
            into(options.cell_limit, parse_seconds));
  table.add("program", "FILE", "strobe program that measures, such as another build; default: this one",
            [&](auto, auto value) { options.program = value; });
  add_axes(table, options.axes);
  add_run_flags(table, options.run);
}

SweepPlan make_plan(const SweepOptions& options, const std::string& this_program) {
  Gatherer gatherer(options.shrink);
  SweepPlan plan;
  GivenFlags run;
  if (options.grid.empty()) {
    gatherer.add_block(options.axes);
  } else {
    const bench::Grid grid = bench::load_grid(options.grid, this_program);
    OptionTable run_table;
    add_run_flags(run_table, run);
    parse_words(run_table, grid.run);
    gather_grid(grid, options, gatherer, plan);
  }
  if (options.launches > 1 && !options.json_dir.empty()) {
    fail(ErrorCode::invalid_argument,
         "--launches {}: --json-dir has one file per cell; valid with --json-dir: --launches 1", options.launches);
  }
  gatherer.check();
  for (const auto& [name, value] : options.run) set_flag(run, name, value);
  std::sort(run.begin(), run.end());  // the order of the flags has no effect
  plan.run_words = words_of_flags(run);
  OptionTable run_table;
  add_run_options(run_table, plan.how);
  parse_words(run_table, plan.run_words);
  plan.cells_of_all = bench::count_cells(gatherer.problems()) * static_cast<std::size_t>(options.launches);
  plan.problems = bench::launched(
      bench::share_of(gatherer.problems(), plan.how.run.rule, options.shard, options.shards), options.launches);
  plan.launches = options.launches;
  for (std::string& note : gatherer.notes()) plan.notes.push_back(std::move(note));
  for (std::string& note : notes_on_time(plan)) plan.notes.push_back(std::move(note));
  plan.output = options.output.value_or(default_output(options));
  return plan;
}

}  // namespace strobe::cli
