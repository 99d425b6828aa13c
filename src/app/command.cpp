#include "app/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "app/options.h"
#include "core/fail.h"
#include "core/printable.h"

namespace strobe {

std::string lines_of(std::span<const Command> commands) {
  std::size_t width = 0;
  for (const Command& command : commands) width = std::max(width, std::string_view(command.name).size() + 2);
  std::string text;
  for (const Command& command : commands) text += fmt::format("  {:<{}}{}\n", command.name, width, command.help);
  return text;
}

const Command& find_command(std::span<const Command> commands, std::string_view before, std::string_view name) {
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (name == command.name) return command;
    names.emplace_back(command.name);
  }
  const std::vector<std::string> near = nearest(name, names);
  fail(ErrorCode::invalid_argument, "\"{}{}\": unknown command; {}: {}", before, printable(name),
       near.size() < names.size() ? "nearest" : "valid", fmt::join(near, ", "));
}

bool asks_for_help(std::string_view word) { return word == "--help" || word == "-h"; }

}  // namespace strobe
