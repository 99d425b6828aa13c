// What is held over the operations of a step as a picture: operations to the right, bytes upwards, a block for each
// tensor or allocation from its first operation to its last. `strobe lm memory` draws it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace strobe::report {

struct MemoryBlock {
  std::string name;
  std::size_t category = 0, at = 0, bytes = 0;
  int from = 0, to = 0;  // operations, both included
};

struct MemoryMap {
  struct Part {
    std::string name;
    int from;
  };
  std::string title, caption;
  std::vector<std::string> operations;
  std::vector<Part> parts;              // "forward", "backward", ...: from which operation on
  std::vector<std::string> categories;  // at most as many as there are colours and one, which is neutral
  std::vector<MemoryBlock> blocks;
  std::size_t bytes = 0, peak_at = 0;  // held at most, and in which operation
};

// A whole file, on white.
std::string memory_map_svg(const MemoryMap& map);

// One page that opens offline: light and dark, what a block is told where it is pointed at.
std::string memory_map_page(std::span<const MemoryMap> maps);

// "1.50 GiB", "12.0 MiB", "640 B".
std::string bytes_text(std::size_t bytes);

}  // namespace strobe::report
