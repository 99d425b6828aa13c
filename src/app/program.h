// What a program of ours does around its work: signals and errors become exit codes here and nowhere else.
#pragma once

#include "app/command.h"

namespace strobe {

// Calls `run` with the words after the program's name; `name` stands before what is told on the standard error. Removes
// temporary files where a signal ends it. Bad input is told there too, unless `refuse` has told it.
int run_as_program(const char* name, int count, char** words, int (*run)(Arguments),
                   bool (*refuse)(std::string_view line) = nullptr);

}  // namespace strobe
