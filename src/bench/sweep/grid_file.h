// Named grids: the text files of sweeps/, installed in share/strobe/sweeps next to the program (in a build tree, a link
// to the sources). Lines of a file:
// "# ...": comment
// "about TEXT": one-line description; once
// "run FLAGS": how bench measures the grid, such as --time-limit 4; the command line overrides it
// "peers NAME,...": torch-* implementations to add if Python has PyTorch; --impl replaces them; once
// "common FLAGS": added to every later `cells`
// "cells FLAGS": a block, the product of its lists; blocks run in order
// Flags are those of `strobe sweep`, most of which take comma lists; a later flag replaces an earlier one of the same
// name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strobe::bench {

struct Grid {
  std::string name;
  std::string about;
  std::vector<std::string> run;                  // words
  std::vector<std::string> peers;                // torch-* implementations, skipped without PyTorch
  std::vector<std::vector<std::string>> blocks;  // words of each `cells`, after those of `common`
};

// Throws Error(invalid_argument) with the number of an invalid line.
Grid parse_grid(const std::string& name, std::string_view text);

// `program` is the path of the running program. A word with a slash is a path; any other is a name in the program's
// share folder. Throws Error(invalid_argument) with the available names.
Grid load_grid(const std::string& word, const std::string& program);

// All named grids, sorted by name. Empty if the folder is missing.
std::vector<Grid> named_grids(const std::string& program);

}  // namespace strobe::bench
