// Tests whether one process may read another's memory: Open MPI assumes it, and containers often forbid it.
#pragma once

namespace strobe::cli {

bool single_copy_works();  // tried, with a child process

}  // namespace strobe::cli
