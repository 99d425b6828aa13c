// Standard output and standard error of a program: text, errors, the message of a signal, progress on a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strobe {

// Writes to standard output. After a failed write, further text is dropped and the command continues: a full terminal
// log does not lose a result file.
void print(std::string_view text);

// Records that a child of this program could not write its output; `error` is an errno.
void note_lost_output(int error);

// Throws Error(runtime) if text was dropped, unless the reader has closed the pipe (`| head`).
void check_output();

// Writes to standard error: text that accompanies data on standard output.
void print_aside(std::string_view text);

// One line per note, prefixed with "note: ".
std::string note_lines(const std::vector<std::string>& notes);

// The name that begins the lines below; default "strobe".
void set_program_name(std::string_view name);

// The command as a user types it, such as "strobe lm train", for hints in errors. Empty if there are no commands.
void set_command(std::string command);
const std::string& current_command();

// Writes one line to standard error, prefixed with "strobe: ".
void complain(std::string_view text) noexcept;

// Replaces the line that is written to standard error when a signal ends the program.
void set_signal_message(std::string_view text);
void write_signal_message() noexcept;  // for the signal handler

// On a terminal, writes one line over the last one; otherwise nothing. An empty text clears it.
void show_progress(std::string_view text);
bool shows_progress();  // standard error is a terminal

}  // namespace strobe
