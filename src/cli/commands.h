// The subcommands, and what they share. main.cpp calls; each returns the exit code.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strobe::cli {

inline constexpr int kFine = 0;
inline constexpr int kFailedCheck = 1;
inline constexpr int kBadInput = 2;
inline constexpr int kRuntimeFailure = 3;

using Arguments = std::span<const std::string_view>;

int run_bench(Arguments arguments);
int run_sweep(Arguments arguments);
int run_compare(Arguments arguments);
int run_report(Arguments arguments);
int run_explain(Arguments arguments);
int run_solve(Arguments arguments);
int run_cases(Arguments arguments);
int run_ladder(Arguments arguments);
int run_lm(Arguments arguments);
int run_precision(Arguments arguments);
int run_env(Arguments arguments);
int run_launch(Arguments arguments);
int run_comm(Arguments arguments);
int run_plan(Arguments arguments);

// Throws Error(invalid_argument), with the nearest ones, where strobe has no such command.
void check_command(std::string_view name);

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

}  // namespace strobe::cli
