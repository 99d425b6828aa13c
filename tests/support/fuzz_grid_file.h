// Reads any text as the grid of a sweep. The reader must reject it with a one-line error, or return blocks of printable
// words whose axes can be combined. Called by libFuzzer (tests/fuzz) and by the test that replays its corpus.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/sweep/grid_file.h"
#include "support/fuzz_rules.h"

namespace strobe::test {

// Parses the axes of a block from the forms of the command line: "--flag value" and "--flag=value".
inline std::vector<bench::Axis> axes_of(const std::vector<std::string>& words) {
  std::vector<bench::Axis> axes;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) continue;
    const std::size_t equals = words[i].find('=');
    const std::string flag = words[i].substr(2, equals == std::string::npos ? equals : equals - 2);
    std::string value;
    if (equals != std::string::npos) {
      value = words[i].substr(equals + 1);
    } else if (i + 1 < words.size() && !words[i + 1].starts_with("--")) {
      value = words[++i];
    }
    bench::set_axis(axes, bench::make_axis(flag, value));
  }
  return axes;
}

inline void require_axes(const std::vector<bench::Axis>& axes) {
  std::size_t count = 1;
  for (const bench::Axis& axis : axes) {
    require(!axis.values.empty(), "an axis has a value");
    count = std::min<std::size_t>(count * axis.values.size(), 1 << 20);
  }
  if (count > 200 && count < 1 << 20) return;  // a larger product would be too slow to fuzz
  std::size_t combinations = 0;
  const bool accepted = is_accepted([&] { combinations = bench::product_of(axes).size(); });
  require(!accepted || combinations == count, "each combination of axis values occurs once");
}

// Returns true if the reader accepts the text.
inline bool fuzz_grid_file(const std::uint8_t* data, std::size_t bytes) {
  bench::Grid grid;
  if (!is_accepted([&] { grid = bench::parse_grid("fuzz", text_of(data, bytes)); })) return false;
  require(!grid.blocks.empty(), "a grid has a block");
  for (const std::vector<std::string>& words : grid.blocks) {
    require(!words.empty(), "a block has words");
    std::vector<bench::Axis> axes;
    if (is_accepted([&] { axes = axes_of(words); })) require_axes(axes);
  }
  return true;
}

}  // namespace strobe::test
