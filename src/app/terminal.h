// Writes to standard output and standard error: results, errors, progress, and the message when a signal ends the
// program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strobe {

// Writes to standard output. After a failed write, further text is dropped and the command continues. It can still
// write its result file if, for example, the disk of a log is full.
void print(std::string_view text);

// Records that a child of this program could not write its output; `error` is an errno.
void note_lost_output(int error);

// Throws Error(runtime) if text was dropped, unless the reader has closed the pipe (`| head`).
void check_output();

// Writes text that accompanies the results, such as notes, to standard error.
void print_aside(std::string_view text);

// For --color; `automatic`: colours on a terminal, unless NO_COLOR is set or TERM is dumb.
enum class Color { automatic, always, never };
void set_color(Color color);

// For --quiet: only results and errors are printed, without notes, progress and advice.
void set_quiet(bool quiet);
bool is_quiet();

// Colours text that may go to standard output or standard error, if both show colours.
enum class Style { plain, good, caution, error };
std::string styled(Style style, std::string_view text);

// Returns `text` as a line, which is wrapped on a terminal (core/table_width.h). A command to copy then continues after
// a backslash, and is not wrapped if it has a quote.
enum class Line { prose, command };
std::string fitting_line(std::string_view text, Line line = Line::prose);

// Returns "LABEL TEXT" as a fitting_line() with a coloured label.
std::string labelled_line(Style style, std::string_view label, std::string_view text, Line line = Line::prose);

// Returns one labelled_line() per note, with the label "note:"; nothing if is_quiet().
std::string note_lines(const std::vector<std::string>& notes);

// Returns the columns of the terminal behind a descriptor; 0 if it is none.
std::size_t terminal_columns(int descriptor);

// Sets the program name that begins error lines; the default is "strobe".
void set_program_name(std::string_view name);

// The command as the user types it, such as "strobe lm train", for hints in errors. Empty in programs without commands.
void set_command(std::string command);
const std::string& current_command();

// Writes one line to standard error, prefixed with the program name: "strobe: ". Wraps it on a terminal.
void complain(std::string_view text) noexcept;

// Sets the line that is written to standard error when a signal ends the program.
void set_signal_message(std::string_view text);
void write_signal_message() noexcept;  // for the signal handler

// On a terminal, overwrites the last progress line with `text`; an empty text clears it. Otherwise does nothing.
void show_progress(std::string_view text);
bool shows_progress();  // true if standard error is a terminal, unless is_quiet()

}  // namespace strobe
