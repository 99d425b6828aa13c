// Descriptors 0 to 2 of a program that was started with some of them closed.
#pragma once

namespace strobe {

// Opens a substitute for each of descriptors 0 to 2 that is closed, so that no file of the program gets such a number
// and is overwritten by progress text. Every main calls this first. Children inherit the substitutes.
// A substitute for standard input is empty. One for standard output or standard error is opened for reading only:
// writing to it fails with EBADF, as it does on a closed descriptor, so that lost results are still a failure.
void secure_standard_descriptors() noexcept;

}  // namespace strobe
