// Several launches of one bench. bench.cpp calls.
#pragma once

#include "cli/commands.h"
#include "core/json.h"

namespace strobe::cli {

struct LaunchedRows {
  int code;   // of the first launch that failed, which has said why; else kFine
  Json rows;  // a list of all rows, launch by launch, each with "launch"
};

LaunchedRows run_launches(Arguments arguments, int launches);

}  // namespace strobe::cli
