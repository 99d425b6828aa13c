// Whether one process may read another's memory here, which Open MPI takes for granted and containers often forbid.
#pragma once

namespace strobe::cli {

bool single_copy_works();  // tried, with a child process

}  // namespace strobe::cli
