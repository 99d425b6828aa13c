// Draws the memory of a training step. The x axis is the sequence of operations, the y axis the address in bytes. Each
// tensor or allocation is a block from its first operation to its last. `strobe lm memory` calls this.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace strobe::report {

struct MemoryBlock {
  std::string name;
  std::size_t category = 0, at = 0, bytes = 0;  // index into `categories`; address; size
  int from = 0, to = 0;                         // first and last operation
};

struct MemoryMap {
  struct Part {
    std::string name;
    int from;
  };
  std::string title, caption;
  std::vector<std::string> operations;
  std::vector<Part> parts;              // phases ("forward", "backward", ...), each with its first operation
  std::vector<std::string> categories;  // at most kColors + 1, of which the last is drawn in a neutral colour
  std::vector<MemoryBlock> blocks;
  std::size_t bytes = 0, peak_at = 0;  // peak bytes, and the operation where they occur
};

// Returns a complete SVG file with a white background.
std::string memory_map_svg(const MemoryMap& map);

// Returns an HTML page that works offline, with a light and a dark theme and a tooltip per block.
std::string memory_map_page(std::span<const MemoryMap> maps);

}  // namespace strobe::report
