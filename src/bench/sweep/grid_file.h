// Named grids: the text files of sweeps/, installed in share/strobe/sweeps next to the program (in a build tree, a link
// to the sources). Lines of a file:
//   # ...            comment
//   about TEXT       one-line description; once
//   run FLAGS        how bench measures the grid, such as --time-limit 4; the command line overrides it
//   peers NAME,...   torch-* implementations to measure too if Python finds PyTorch; --impl replaces them; once
//   common FLAGS     for every later `cells`
//   cells FLAGS      a block: the product of its lists; blocks run one after the other
// Flags are those of `strobe sweep`, most of which take comma lists; a later flag replaces an earlier one of that name.
// The text of a case (core/case_text.h) may stand before the flags of `common` and `cells`: b16 s512,1024 h32 d64 bf16.
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
  std::vector<std::string> peers;                // torch-* implementations that are skipped without PyTorch
  std::vector<std::vector<std::string>> blocks;  // words of each `cells`, those of `common` before them
};

// Throws Error(invalid_argument) with the line that is not as above.
Grid parse_grid(const std::string& name, std::string_view text);

// `program` is the path of the running program. A word with a slash is a path; any other a name in its share/.
// Throws Error(invalid_argument) with the names that there are.
Grid load_grid(const std::string& word, const std::string& program);

// The text of a file NAME + suffix in share/ likewise, for `flag`: ".grid", ".limits".
std::string read_sweep_file(const std::string& flag, const std::string& word, const std::string& suffix,
                            const std::string& program);

// All named grids, by name. Empty where the folder is missing.
std::vector<Grid> named_grids(const std::string& program);

// Axes of a sweep as text: flags of bench, each with a list of values. What the values mean, bench's own parser knows.

struct Axis {
  std::string flag;  // as the help spells it, without dashes: "seq_len"
  std::vector<std::string> values;
};

// Splits a value of the command line: commas separate values, --causal's "both" is off and on, and no text at all is
// "on". --impl and --lengths take lists themselves and stay whole. Throws Error(invalid_argument) for an empty item or
// one that is there twice.
Axis make_axis(std::string flag, std::string_view value);

// Puts the axis in the place of one with the same flag, or behind the others.
void set_axis(std::vector<Axis>& axes, Axis axis);

// One choice of a value for every axis: flag and value.
using Combination = std::vector<std::pair<std::string, std::string>>;

// All of them; the last axis varies fastest. Throws Error(invalid_argument) where there are more than 100,000.
std::vector<Combination> product_of(const std::vector<Axis>& axes);

}  // namespace strobe::bench
