// Escapes text for each output format.
#include "results/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/printable.h"

namespace strobe {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

constexpr std::string_view kInvisible = "&#8203;";  // zero-width space: breaks a mention

// True at the dot of "www." and at "://", from which Markdown makes links.
bool begins_link(std::string_view text, std::size_t at) {
  if (text[at] == ':') return text.substr(at, 3) == "://";
  if (text[at] != '.' || at < 3) return false;
  const std::string_view before = text.substr(at - 3, 3);
  return std::all_of(before.begin(), before.end(), [](char c) { return c == 'w' || c == 'W'; });
}

// True at the '#' of "#12" and the '-' of "GH-12", from which GitHub makes links to issues.
bool begins_number_of_issue(std::string_view text, std::size_t at) {
  if (at + 1 >= text.size() || !is_digit(text[at + 1])) return false;
  if (text[at] == '#') return true;
  return text[at] == '-' && at >= 2 && (text[at - 2] | 0x20) == 'g' && (text[at - 1] | 0x20) == 'h';
}

// Returns the position where a backslash prevents a list, a heading or a rule; npos if none is needed.
std::size_t line_mark(std::string_view line) {
  if (line.empty()) return std::string_view::npos;
  if (std::string_view("-+=#").find(line[0]) != std::string_view::npos) return 0;
  const std::size_t end = std::min(line.find_first_not_of("0123456789"), line.size());
  const bool numbered = end > 0 && end < line.size() && (line[end] == '.' || line[end] == ')');
  return numbered ? end : std::string_view::npos;
}

std::string on_one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  }
  const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
  return printable(std::string_view(line).substr(first), std::string_view::npos);
}

void append_markdown(std::string& out, std::string_view line, std::size_t at) {
  const char c = line[at];
  switch (c) {
    case '&': out += "&amp;"; return;
    case '<': out += "&lt;"; return;
    case '>': out += "&gt;"; return;
    case '@': (out += c) += kInvisible; return;
    default: break;
  }
  if (begins_number_of_issue(line, at)) {
    (out += c) += kInvisible;
    return;
  }
  if (std::string_view("\\`*_[]|~$").find(c) != std::string_view::npos || begins_link(line, at)) out += '\\';
  out += c;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return out;
}

std::string script_json(std::string_view json) {
  std::string out;
  for (const char c : json) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

std::string markdown_text(std::string_view text) {
  const std::string line = on_one_line(text);
  std::string out;
  for (std::size_t i = 0; i < line.size(); ++i) append_markdown(out, line, i);
  return out;
}

std::string markdown_line(std::string_view text) {
  const std::string line = on_one_line(text);
  const std::size_t mark = std::min(line_mark(line), line.size());
  return markdown_text(line.substr(0, mark)) + (mark < line.size() ? "\\" : "") + markdown_text(line.substr(mark));
}

std::string markdown_target(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool plain = is_letter(c) || is_digit(c) || std::string_view("-._~").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string csv_text(std::string_view text) {
  constexpr std::string_view kFullWidth[] = {"\uff1d", "\uff0b", "\uff0d", "\uff20"};  // = + - @
  std::string cell(text);
  const bool is_formula =
      (!cell.empty() && std::string_view("=+-@\t\r\n").find(cell[0]) != std::string_view::npos) ||
      std::any_of(std::begin(kFullWidth), std::end(kFullWidth), [&](auto sign) { return text.starts_with(sign); });
  if (is_formula) cell.insert(0, "'");
  if (cell.find_first_of(",;\t\"\n\r'") == std::string::npos)
    return cell;  // semicolons and tabs separate cells in some locales
  std::string out = "\"";
  for (const char c : cell) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace strobe
