// Several launches of one bench. bench.cpp calls.
#pragma once

#include <string>

#include "app/command.h"
#include "core/json.h"

namespace strobe::cli {

// Of the processes that it starts: one launch, rows to the standard output, whatever other flags say.
inline constexpr const char* kLaunchFlag = "launch";

struct LaunchedRows {
  int code;   // of the first launch that failed, which has said why; else kFine
  Json rows;  // a list of all rows, launch by launch, each with "launch"
};

// `command` repeats the whole, and stands in every row.
LaunchedRows run_launches(Arguments arguments, int launches, const std::string& command);

}  // namespace strobe::cli
