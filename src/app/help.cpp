// Wraps the text of --help.
#include "app/help.h"

#include <algorithm>
#include <span>
#include <vector>

#include "app/options.h"
#include "app/terminal.h"

namespace strobe {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::string& word : split(text, ' ')) {
    if (!word.empty()) words.push_back(std::move(word));
  }
  return words;
}

bool is_wide(std::string_view line) { return line.size() > kHelpColumns; }

std::size_t indent_of(std::string_view line) { return std::min(line.find_first_not_of(' '), line.size()); }

// The column of "text" in "  name  text"; 0 if the line has another form.
std::size_t text_column(std::string_view line) {
  const std::size_t begin = indent_of(line), gap = line.find("  ", begin);
  const std::size_t text = begin == 0 || gap == std::string_view::npos ? 0 : line.find_first_not_of(' ', gap);
  return text < kHelpColumns / 2 ? text : 0;
}

// Returns the number of lines, from the first, that are rewrapped together.
std::size_t block_size(std::span<const std::string> lines) {
  const std::size_t column = text_column(lines[0]);
  const bool is_prose = !lines[0].empty() && lines[0][0] != ' ' && !lines[0].starts_with("usage:");
  std::size_t count = 1;
  if (!is_prose && column == 0) return count;
  while (count < lines.size() && !lines[count].empty() && indent_of(lines[count]) == column) ++count;
  return count;
}

std::string filled_block(std::span<const std::string> lines) {
  const std::string& first = lines[0];
  if (const std::size_t begin = indent_of(first); first.substr(begin).starts_with("strobe ")) {  // an example to copy
    return filled(std::string(begin, ' '), first, begin + 4, " \\");
  }
  const bool is_line = lines.size() == 1 && text_column(first) == 0;
  const bool hangs = is_line && (indent_of(first) > 0 || first.starts_with("usage:"));
  const std::size_t begin = hangs ? indent_of(first) : text_column(first);
  std::string text;
  for (const std::string& line : lines) text += line.substr(text.empty() ? begin : 0) + ' ';
  return filled(first.substr(0, begin), text, hangs ? begin + 4 : begin);
}

}  // namespace

std::string filled(std::string line, std::string_view text, std::size_t indent, std::string_view end,
                   std::size_t columns) {
  std::string lines;
  bool is_first = true;  // the next word needs no space before it
  for (const std::string& word : words_of(text)) {
    if (!is_first && line.size() + 1 + word.size() + end.size() > columns) {
      lines += line + std::string(end) + '\n';
      line.assign(indent, ' ');
      is_first = true;
    }
    line += (is_first ? "" : " ") + word;
    is_first = false;
  }
  return lines + line + '\n';
}

std::string help_entry(std::string_view head, std::string_view text, std::size_t column) {
  std::string line = "  " + std::string(head), before;
  if (line.size() + 2 > column) {
    before = line + '\n';
    line.clear();
  }
  line.resize(column, ' ');
  return before + filled(std::move(line), text, column);
}

std::string wrap_help(std::string_view text) {
  std::vector<std::string> lines = split(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  std::string wrapped;
  for (std::span<const std::string> rest = lines; !rest.empty();) {
    const std::span<const std::string> block = rest.first(block_size(rest));
    const bool fits = std::none_of(block.begin(), block.end(), is_wide);
    for (const std::string& line : block) wrapped += fits ? line + '\n' : "";
    if (!fits) wrapped += filled_block(block);
    rest = rest.subspan(block.size());
  }
  return wrapped;
}

void print_help(std::string_view text) { print(wrap_help(text)); }

}  // namespace strobe
