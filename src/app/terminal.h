// Standard output and standard error of a program: text, errors, the message of a signal, progress on a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strobe {

// Text to the standard output. Once a write has failed, further text is dropped, and the command goes on to its end: a
// result file is not lost because of a full terminal log.
void print(std::string_view text);

// Text of another process of ours was dropped, for a reason that is an errno.
void note_lost_output(int error);

// Throws Error(runtime) where text was dropped, unless the reader has gone (`| head`): that is not an error.
void check_output();

// The same to the standard error, for text that goes beside data on the standard output.
void print_aside(std::string_view text);

// A line each, with "note: " before it.
std::string note_lines(const std::vector<std::string>& notes);

// The name that the lines below begin with; "strobe" unless said.
void set_program_name(std::string_view name);

// A line to the standard error, with "strobe: " before it.
void complain(std::string_view text) noexcept;

// What a signal that ends the program says: a line to the standard error, in place of the one before.
void set_last_words(std::string_view text);
void say_last_words() noexcept;  // for the handler of the signal

// On a terminal, one line that overwrites itself; nothing otherwise. An empty text clears it.
void show_progress(std::string_view text);
bool shows_progress();  // whether there is a terminal for it

}  // namespace strobe
