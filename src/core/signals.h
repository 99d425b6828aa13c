// How a program ends on a signal: temporary files are removed, one line is printed. Each main calls this once.
#pragma once

namespace strobe {

// SIGINT and SIGTERM, and SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU and SIGALRM unless the parent process ignores them, end the
// program with 128 + number, after signal_message(). SIGBUS, a mapped file that became shorter or whose disk failed,
// ends with 3. A closed pipe and a file that may not grow are errors of write instead. `program` precedes the line of
// SIGBUS; both must outlive the process's work.
void end_cleanly_on_signals(const char* program, void (*signal_message)() noexcept = nullptr);

// False if the parent process ignores the signal (nohup), so that this one does too. A terminal's Ctrl-C (SIGINT)
// and SIGTERM always end the program.
bool is_handled(int number);

// From now on the first of those signals is only remembered: the program asks between two steps, saves and ends.
// SIGINT, SIGTERM or SIGHUP more than a second after the first of these three ends the program as above. The others are
// warnings, which batch systems and the kernel repeat, and never end it.
void remember_first_signal();
int remembered_signal();  // its number; 0: none came

}  // namespace strobe
