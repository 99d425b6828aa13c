// `strobe-lab`: the ladder's driver. `strobe ladder` runs it as a child and reads its rows.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <vector>

#include "app/signals.h"
#include "app/standard_descriptors.h"
#include "core/fail.h"
#include "core/printable.h"
#include "core/write_all.h"
#include "lab/experiments.h"
#include "lab/options.h"
#include "lab/solve_file.h"
#include "measure/environment.h"
#include "report/ladder.h"

namespace strobe::lab {
namespace {

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    fail(ErrorCode::runtime, "standard output: {}", std::strerror(errno));
  }
}

// Prints one line to standard error. A failed write is ignored: there is no other place for it.
void complain(std::string_view text) {
  static_cast<void>(write_all(STDERR_FILENO, fmt::format("strobe-lab: {}\n", printable(text, std::string_view::npos))));
}

// The line printed on a signal; null: none, the parent process prints one.
std::atomic<const char*> last_words{nullptr};

void say_last_words() noexcept {
  if (const char* const words = last_words) static_cast<void>(write_all(STDERR_FILENO, words));
}

void solve_and_tell(const Options& options) {
  last_words = "strobe-lab: ended by a signal; nothing was written\n";
  const std::string lines = solve_file(*options.rungs[0], *options.input, *options.output, options.timing);
  last_words = "strobe-lab: ended by a signal\n";
  print(lines);
}

void list_rungs() {
  for (const Rung& rung : rungs()) {
    print(fmt::format("{:<13} {:<4} {}{}\n", rung.name, rung.place == Place::gpu ? "gpu" : "cpu", rung.idea,
                      rung.run ? "" : " (not in this build)"));
  }
}

// Prints rows as JSON lines at once, or as tables at the end.
class Rows {
 public:
  Rows(bool json, std::string command) : json_(json), command_(std::move(command)) {}

  void add(Json row) {
    if (!json_) return all_.push_back(std::move(row));
    row.set("command", command_);
    row.set("environment", environment_);
    print(row.dump() + "\n");
  }

  // Adds a row that was not run, with the reason.
  void refuse(Json row, const Case& size, const std::string& reason) {
    row.set("case", case_json(size)).set("flops", size.flops()).set("status", "refused").set("reason", reason);
    add(std::move(row));
  }

  void end() const {
    if (!json_) print(report::tables_text(report::ladder_tables(all_)));
  }

 private:
  bool json_;
  std::string command_;
  Json environment_ = environment_json();
  std::vector<Json> all_;
};

// The experiments take the sizes that `pinned` takes.
std::string experiment_refusal(const Case& size) {
  return refusal_of(find_rung("pinned"), {size.batch, size.rows, size.dim});
}

void measure_rungs(const Options& options, const Case& size, Subjects& subjects, Rows& rows) {
  for (const Rung* rung : options.rungs) {
    Json row = Json::object({{"kind", "rung"},
                             {"rung", rung->name},
                             {"idea", rung->idea},
                             {"device", rung->place == Place::gpu ? "gpu" : "cpu"}});
    const std::string refusal = refusal_of(*rung, {size.batch, size.rows, size.dim});
    if (refusal.empty())
      rows.add(measure({std::move(row), rung->run}, size, subjects, options.settings));
    else
      rows.refuse(std::move(row), size, refusal);
  }
}

void measure_ablation(const Options& options, const Case& size, Subjects& subjects, Rows& rows) {
  const std::string refusal = experiment_refusal(size);
  if (!refusal.empty()) return rows.refuse(Json::object({{"kind", "ablation"}, {"without", ""}}), size, refusal);
  for (const Variant& variant : ablation()) {
    Json row = Json::object({{"kind", "ablation"}, {"without", variant.without}, {"device", "gpu"}});
    rows.add(measure({std::move(row), variant.run}, size, subjects, options.settings));
  }
}

void measure_tiles(const Options& options, const Case& size, Subjects& subjects, Rows& rows) {
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
      rows.refuse(std::move(row), size, fmt::format("N {} is not a multiple of both", size.rows));
    } else {
      rows.add(measure({std::move(row), tile.run}, size, subjects, options.settings));
    }
  }
}

void run_once(const Options& options) {
  for (const Case& size : options.cases) {
    const Inputs inputs(size);
    std::vector<float> o(static_cast<std::size_t>(inputs.problem().elements()));
    for (const Rung* rung : options.rungs) {
      const std::string refusal = refusal_of(*rung, inputs.problem());
      if (!refusal.empty()) fail(ErrorCode::unsupported, "rung {}: {}", rung->name, refusal);
      rung->run(inputs.problem(), o.data());
    }
  }
}

void run(const std::vector<std::string>& words) {
  const Options options = parse_options(words);
  if (options.help) return print(kHelp);
  if (options.list) return list_rungs();
  if (options.input) return solve_and_tell(options);
  if (options.once) return run_once(options);
  Rows rows(options.json, fmt::format("strobe-lab {}", fmt::join(words, " ")));
  for (const Case& size : options.cases) {
    Subjects subjects;
    measure_rungs(options, size, subjects, rows);
    if (options.ablation) measure_ablation(options, size, subjects, rows);
    if (options.tiles) measure_tiles(options, size, subjects, rows);
  }
  rows.end();
}

}  // namespace
}  // namespace strobe::lab

int main(int count, char** words) {
  strobe::secure_standard_descriptors();
  strobe::end_cleanly_on_signals("strobe-lab", strobe::lab::say_last_words);
  try {
    strobe::lab::run({words + 1, words + count});
    return 0;
  } catch (const strobe::Error& error) {
    strobe::lab::complain(error.what());
    const bool input =
        error.code() == strobe::ErrorCode::invalid_argument || error.code() == strobe::ErrorCode::unsupported;
    return input ? 2 : 3;
  } catch (const std::bad_alloc&) {
    strobe::lab::complain("out of memory");
    return 3;
  } catch (const std::exception& error) {
    strobe::lab::complain(error.what());
    return 3;
  }
}
