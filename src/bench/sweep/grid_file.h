// Parses grid files, which list the cases of a sweep. Named grids are files of sweeps/, installed in
// ../share/strobe/sweeps relative to the program's folder (in a build tree, a link to the sources). Lines of a file:
//   # ...             comment
//   about TEXT        one-line description; once
//   run FLAGS         flags of bench for all cells, such as --time-limit 4; the command line overrides them
//   peers NAME,...    PyTorch peers (torch-*, fa3) to add if Python has PyTorch; --impl replaces them; once
//   common FLAGS      added to every later `cells`
//   cells FLAGS       a block of cases: all combinations of its lists; blocks run in order
// Flags are those of `strobe sweep`, most of which take comma-separated lists. A later flag replaces an earlier one of
// the same name. `common` and `cells` may begin with sizes in short form (core/case_text.h), such as b16 s512,1024 h32
// d64 bf16.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strobe::bench {

struct Grid {
  std::string name;
  std::string about;
  std::vector<std::string> run;                  // words
  std::vector<std::string> peers;                // PyTorch peers, skipped without PyTorch
  std::vector<std::vector<std::string>> blocks;  // per `cells` line: words of `common`, then its own
};

// Parses a grid file. Throws Error(invalid_argument) with the line number if a line is invalid.
Grid parse_grid(const std::string& name, std::string_view text);

// Loads a grid. A word with a slash is a path; any other is the name of a grid in the share folder of `program`, the
// path of the running program. Throws Error(invalid_argument) with the available names.
Grid load_grid(const std::string& word, const std::string& program);

// Returns the text of the file WORD + suffix (".grid", ".limits") in the share folder, or of the path `word` if it has
// a slash. Error messages begin with `flag`.
std::string read_sweep_file(const std::string& flag, const std::string& word, const std::string& suffix,
                            const std::string& program);

// All named grids, sorted by name. Empty if the folder is missing.
std::vector<Grid> named_grids(const std::string& program);

// An axis of a sweep is a flag of bench with a list of values. The values are text that bench parses.
struct Axis {
  std::string flag;  // spelled as in the help, without dashes: "seq_len"
  std::vector<std::string> values;
};

// Splits a command-line value at commas. "both" of --causal becomes off and on; empty text becomes "on". Values of
// --impl and --lengths are not split, because bench itself takes lists there. Throws Error(invalid_argument) for an
// empty or repeated item.
Axis make_axis(std::string flag, std::string_view value);

// Replaces the axis with the same flag, or appends.
void set_axis(std::vector<Axis>& axes, Axis axis);

// One value per axis: flag and value.
using Combination = std::vector<std::pair<std::string, std::string>>;

// All combinations; the last axis varies fastest. Throws Error(invalid_argument) above 100,000.
std::vector<Combination> product_of(const std::vector<Axis>& axes);

}  // namespace strobe::bench
