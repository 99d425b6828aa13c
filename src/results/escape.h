// Escapes text for HTML, SVG, Markdown and CSV. Result files are untrusted: their text must never become a tag, a
// script, a link, a mention or a formula.
#pragma once

#include <string>
#include <string_view>

namespace strobe {

std::string escaped(std::string_view text);  // for HTML and SVG, also in attributes; control characters become spaces

// Escapes JSON for a <script> element, so that "</script>" and "<!--" cannot occur in it.
std::string script_json(std::string_view json);

// Escapes text inside a line of Markdown or a table cell. Prevents markup, HTML, images, links, mentions and references
// to issues. Newlines, carriage returns and tabs become spaces, and leading spaces are removed. Other control
// characters, bidirectional controls and invalid UTF-8 become \xNN.
std::string markdown_text(std::string_view text);

// As markdown_text(), for text at the beginning of a line: also prevents headings, lists and horizontal rules.
std::string markdown_line(std::string_view text);

// Escapes a file name as the target of a Markdown link: percent-encodes every byte except letters, digits and -._~.
std::string markdown_target(std::string_view name);

// Escapes a text cell of CSV (RFC 4180), with quotes only if needed. Text that a spreadsheet would read as a formula
// gets an apostrophe in front, as OWASP recommends. Numbers need no escaping.
std::string csv_text(std::string_view text);

}  // namespace strobe
