// How a program of ours ends by a signal: temporary files go, and a lost file is told in one line. Each main calls this
// once.
#pragma once

namespace strobe {

// SIGINT, SIGTERM and, but under nohup, SIGHUP end with 128 + number, after last_words() where there are any. SIGBUS, a
// mapped file that became shorter or whose disk failed, ends with 3. A pipe that is closed and a file that may not grow
// are errors of write instead. `program` stands before the line; both must outlive the process's work.
void end_cleanly_on_signals(const char* program, void (*last_words)() noexcept = nullptr);

// From now on, the first of those three signals is remembered and nothing more: whoever works asks between two pieces
// of work, and saves. One that comes more than a second later ends the program as above.
void remember_first_signal();
int remembered_signal();  // its number; 0: none came

}  // namespace strobe
