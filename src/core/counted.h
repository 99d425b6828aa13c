// Numbers with their nouns, for texts that people read.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace strobe {

// "1 cell", "2 cells"
std::string counted(std::integral auto count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace strobe
