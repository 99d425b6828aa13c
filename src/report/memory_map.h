// Draws the memory of a training step: operations to the right, bytes upwards, a block for each tensor or allocation
// from its first operation to its last. `strobe lm memory` calls this.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace strobe::report {

struct MemoryBlock {
  std::string name;
  std::size_t category = 0, at = 0, bytes = 0;
  int from = 0, to = 0;  // operations, inclusive
};

struct MemoryMap {
  struct Part {
    std::string name;
    int from;
  };
  std::string title, caption;
  std::vector<std::string> operations;
  std::vector<Part> parts;              // "forward", "backward", ...: first operation of each
  std::vector<std::string> categories;  // at most one more than there are colours; the last is neutral
  std::vector<MemoryBlock> blocks;
  std::size_t bytes = 0, peak_at = 0;  // peak bytes and its operation
};

// A complete file with a white background.
std::string memory_map_svg(const MemoryMap& map);

// One page that works offline, light and dark, with a tooltip per block.
std::string memory_map_page(std::span<const MemoryMap> maps);

// "1.50 GiB", "12.0 MiB", "640 B".
std::string bytes_text(std::size_t bytes);

}  // namespace strobe::report
