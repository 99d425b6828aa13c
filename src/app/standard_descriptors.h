// Opens standard descriptors that the parent process has closed.
#pragma once

namespace strobe {

// Opens a substitute for each closed descriptor of 0 to 2. Otherwise a file of the program could get such a number, and
// progress text would overwrite it. Every main calls this first. Children inherit the substitutes.
// A substitute for standard input is empty. One for standard output or standard error is opened for reading only:
// writing to it fails with EBADF, as it does on a closed descriptor, so that lost results are still a failure.
void secure_standard_descriptors() noexcept;

}  // namespace strobe
